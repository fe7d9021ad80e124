"""Redis as the leases use it: keys, scripts, connections."""
