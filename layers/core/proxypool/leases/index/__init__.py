"""The index of ready proxies in Redis, written from the proxies table."""
