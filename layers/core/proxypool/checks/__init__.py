"""Checks: does a proxy work, what does it show of us, does it alter what it carries; and what follows for its record."""
