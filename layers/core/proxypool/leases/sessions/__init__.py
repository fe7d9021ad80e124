"""Sessions: cookies, tokens and headers of a login, shared by workers."""
