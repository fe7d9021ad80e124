"""HTTP on the API side: events in, responses out; callers, operations and their router."""
