"""robots.txt (RFC 9309): fetched through the same proxy as the page and cached for a day, shared by all workers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from protego import Protego

from proxypool.aws.state import StateTable
from proxypool.jobs.fetch.page import Answer

AGENT: Final = "proxypool"
CACHE_SECONDS: Final = 86_400
FAILED_SECONDS: Final = 300  # after a failed fetch
MAX_BYTES: Final = 100_000  # cached per site; the RFC requires at least 500 KiB, but a row holds 400 KB
MAX_CACHED: Final = 1_000  # sites, in this process
DISALLOW_ALL: Final = "User-agent: *\nDisallow: /"

Get = Callable[[str], Awaitable[Answer | None]]


@dataclass(slots=True)
class Robots:
    """The robots.txt rules of the sites."""

    state: StateTable
    _rules: dict[str, Any] = field(default_factory=dict, repr=False)

    async def allows(self, url: str, get: Get) -> bool:
        """True if robots.txt allows the page. `get` fetches robots.txt and returns None if that failed: then no page is allowed."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        rules = self._rules.get(origin)
        if rules is None:
            if len(self._rules) >= MAX_CACHED:
                self._rules.clear()
            rules = self._rules[origin] = Protego.parse(await self._text(origin, get))
        return bool(rules.can_fetch(url, AGENT))

    async def _text(self, origin: str, get: Get) -> str:
        name = f"robots:{origin}"
        cached = await asyncio.to_thread(self.state.get, name)
        if isinstance(cached, str):
            return cached
        answer = await get(origin + "/robots.txt")
        text, seconds = _read(answer)
        await asyncio.to_thread(self.state.put, name, text, ttl_seconds=seconds)
        return text


def _read(answer: Answer | None) -> tuple[str, int]:
    """The rules in a response and how long to cache them. 4xx allows all pages; 5xx and no response forbid all (RFC 9309, 2.3.1)."""
    if answer is None or answer.status >= 500:
        return DISALLOW_ALL, FAILED_SECONDS
    if answer.status >= 400:
        return "", CACHE_SECONDS
    return answer.body[:MAX_BYTES].decode("utf-8", "replace"), CACHE_SECONDS
