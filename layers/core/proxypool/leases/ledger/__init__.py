"""From the journal in Redis to the ledger in DynamoDB."""
