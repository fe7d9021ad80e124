"""The farm: working, broken and hostile proxies on loopback, and their judge."""
