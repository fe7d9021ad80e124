"""The service's own commands of `proxypool`: those that need more than the API. The client holds the others."""
