"""Fetching one page through one leased proxy, within the rules of its domain."""
