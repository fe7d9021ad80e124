"""Lease proxies from a proxy pool over HTTP."""
