"""The stack on a laptop: real Valkey, an emulated AWS, a farm of proxies and their judge, all on loopback."""
