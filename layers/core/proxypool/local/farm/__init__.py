"""The farm: good and hostile proxies on loopback, and their judge."""
