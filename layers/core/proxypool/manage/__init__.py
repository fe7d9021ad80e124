"""The admin API: sources, proxies, settings, runs, and how the pool is."""
