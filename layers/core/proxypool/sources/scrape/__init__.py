"""Reading one source: load, parse, limit, store, report."""
