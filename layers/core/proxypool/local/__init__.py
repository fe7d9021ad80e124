"""The local stack: a real Valkey, an emulated AWS, a demo farm of proxies and their judge, all on loopback."""
