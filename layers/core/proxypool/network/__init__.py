"""The only way out: which addresses the pool touches, and bounded HTTP to them."""
