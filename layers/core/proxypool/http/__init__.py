"""HTTP of the API: events and responses of API Gateway, callers, operations and their router."""
