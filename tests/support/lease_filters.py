"""One example per lease filter, for the tests that use all filters: brute force, HTTP, pool_low_filters.

The rule of an example is a second implementation of the filter: on a record, not on a ready member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from proxypool.leases import filters
from proxypool.leases.filters import FILTERS
from proxypool.leases.pool import Request
from proxypool.proxies.proxy import Anonymity, Kind, Protocol
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.score import score


@dataclass(frozen=True, kw_only=True)
class Example:
    """A filter: facts of proxies (the first one matches `wanted`, and not `other`), and the rule that excludes a proxy."""

    name: str
    facts: Mapping[str, Sequence[Any]]  # an argument of a_record, and its values
    wanted: Any
    other: Any = None  # None: the first one matches every value
    excludes: Callable[[ProxyRecord, Request], bool]


EXAMPLES = (
    Example(
        name="protocol", facts={"protocol": [Protocol.HTTP, Protocol.HTTP, Protocol.SOCKS5]},
        wanted=Protocol.HTTP, other=Protocol.SOCKS5,
        excludes=lambda record, request: request.protocol not in (None, record.proxy.protocol),
    ),
    Example(
        name="https", facts={"https": [True, False]}, wanted=True,
        excludes=lambda record, request: request.https and not record.check.https,
    ),
    Example(
        name="country", facts={"country": ["de", "us", None]}, wanted="de", other="us",
        excludes=lambda record, request: request.country not in (None, record.check.country),
    ),
    Example(
        name="region", facts={"region": ["by", "ca", None]}, wanted="by", other="ca",
        excludes=lambda record, request: request.region not in ("", record.check.region),
    ),
    Example(
        name="anonymity", facts={"anonymity": [Anonymity.ELITE, Anonymity.ANONYMOUS, Anonymity.TRANSPARENT]},
        wanted=Anonymity.ANONYMOUS,
        excludes=lambda record, request: (record.check.anonymity or Anonymity.TRANSPARENT).rank < request.anonymity.rank,
    ),
    Example(
        name="kind", facts={"kind": [Kind.MOBILE, Kind.RESIDENTIAL]}, wanted=Kind.MOBILE, other=Kind.RESIDENTIAL,
        excludes=lambda record, request: request.kind not in (None, record.kind),
    ),
    Example(
        name="min_score", facts={"passed": [50.0, 1.0]}, wanted=0.5, other=0.99,
        excludes=lambda record, request: score(record.check, record.lease).value < request.min_score - 1e-6,
    ),
    Example(
        name="max_latency_ms", facts={"latency_ms": [50.0, 500.0, None]}, wanted=100, other=40,
        excludes=lambda record, request: bool(request.max_latency_ms)
        and (record.check.latency_ms is None or record.check.latency_ms > request.max_latency_ms),
    ),
    Example(
        name="ipv4_only", facts={"exit_ip": ["127.1.0.1", "127.1.0.2", "127.1.0.3", "2001:db8::1", None]}, wanted=True,
        excludes=lambda record, request: request.ipv4_only and (record.slots > 1 or "." not in (record.check.exit_ip or "")),
    ),
    Example(
        name="tags", facts={"tags": [frozenset({"a", "b"}), frozenset({"a"}), frozenset()]}, wanted=("a", "b"), other=("c",),
        excludes=lambda record, request: not set(request.tags) <= record.tags,
    ),
    Example(
        name="source", facts={"sources": [frozenset({"s1", "s2"}), frozenset({"s1"})]}, wanted="s2", other="s3",
        excludes=lambda record, request: bool(request.source) and request.source not in record.sources,
    ),
)  # fmt: skip


def fitting() -> dict[str, Any]:
    """Arguments of a_record for a proxy that matches every example."""
    return {fact: values[0] for example in EXAMPLES for fact, values in example.facts.items()}


@contextmanager
def layout_without(name: str) -> Iterator[None]:
    """Within the block, members are written in the layout from before this filter existed."""
    older = tuple(row for row in FILTERS if row.name != name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "FILTERS", older)
        patch.setattr(filters, "LAYOUT_VERSION", filters.layout_version(older))
        yield
