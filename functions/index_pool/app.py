"""index_pool: applies each committed change of a proxy, from the table's stream, to Redis, in order and with retries."""

from __future__ import annotations

from functools import cache
from typing import Any

from proxypool.config.settings import settings
from proxypool.leases.build import build_cache
from proxypool.leases.index.projection import project
from proxypool.leases.index.ready import Index
from proxypool.telemetry import flush


@cache
def index() -> Index:
    """Built once per Lambda environment."""
    return Index(build_cache(settings()), settings().max_age_seconds)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Applies a batch of stream records. The response names the first failed record; Lambda retries from there."""
    failed = project(event["Records"], index())
    flush()
    return {"batchItemFailures": [{"itemIdentifier": failed}] if failed else []}
