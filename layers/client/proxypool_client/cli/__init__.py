"""The command line: `proxypool lease`, `fetch`, `sources`, `proxies`, `jobs`, … Each module holds the commands of one noun."""
