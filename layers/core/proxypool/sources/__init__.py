"""Where proxies come from: sources, the formats of their lists, and the two tasks that read them."""
