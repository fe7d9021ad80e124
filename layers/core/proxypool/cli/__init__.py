"""The commands of `proxypool` that need more than the API; the others are in proxypool_client.cli."""
