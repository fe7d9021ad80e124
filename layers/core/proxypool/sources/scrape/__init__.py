"""Scraping one source: load, parse, apply caps, store, report."""
