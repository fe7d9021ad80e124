"""Runs in crawlee's own environment: a minimal HttpCrawler that stores its pages. Input on stdin, figures on stdout, as JSON.

The first page is a warm-up, so that one-time costs are in neither side's figures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from crawlee import ConcurrencySettings
from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
from crawlee.http_clients import HttpxHttpClient, ImpitHttpClient
from crawlee.proxy_configuration import ProxyConfiguration


async def crawl(order: dict[str, Any]) -> dict[str, Any]:
    """Crawls the pages with crawlee's default storage, sessions and retries."""
    number, stored = order["at_once"], set()
    crawler = HttpCrawler(
        proxy_configuration=ProxyConfiguration(proxy_urls=order["proxies"]),
        concurrency_settings=ConcurrencySettings(
            min_concurrency=number, max_concurrency=number, desired_concurrency=number
        ),
        http_client=HttpxHttpClient() if order["client"] == "httpx" else ImpitHttpClient(),
        configure_logging=False,
    )

    @crawler.router.default_handler  # type: ignore[untyped-decorator]  # crawlee is in an environment of its own
    async def keep(context: HttpCrawlingContext) -> None:
        body = await context.http_response.read()
        await context.push_data(
            {"url": context.request.url, "status": context.http_response.status_code, "text": body.decode()}
        )
        stored.add(context.request.url)

    await crawler.run([f"{order['site']}/first"])
    stored.clear()
    wall, cpu = time.perf_counter(), time.process_time()
    await crawler.run([f"{order['site']}/{page}" for page in range(order["pages"])])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"pages": len(stored), "cpu_seconds": cpu, "wall_seconds": wall}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(crawl(json.load(sys.stdin)))))
