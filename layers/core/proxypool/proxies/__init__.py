"""The proxy: its identity, its facts, its score, and the table that is the record of all of them."""
