"""Fetching a page through a leased proxy: domain rules, rate limits, robots.txt, the request itself."""
