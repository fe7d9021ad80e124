"""Emulated AWS and a real Valkey, and the template deployed to them."""
