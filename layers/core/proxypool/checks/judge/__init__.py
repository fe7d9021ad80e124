"""The judge: the page that proxies are asked to fetch, its signed answer, and who may stand in for it."""
