"""Leases: who holds which proxy until when. Redis decides, in scripts; the journal carries what happened to DynamoDB."""
