"""The allow list of domains for jobs, with the limits of each domain. Pages of other domains are not fetched."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from proxypool.aws.state import StateTable
from proxypool.errors import Invalid
from proxypool.http.web import Field, read_fields

DOMAIN_LIMITS_STATE_KEY: Final = "domains"  # one row: thousands of domains fit into its 400 KB
CACHE_SECONDS: Final = 30.0
DOMAIN_NAME: Final = r"[a-z0-9.:_-]{1,253}"

DOMAIN_FIELDS: Final = {
    "requests_per_second": Field(kind=float, default=1.0, minimum=0.001, maximum=10_000),
    "concurrency": Field(
        kind=int, default=2, minimum=0, maximum=10_000, description="Concurrent requests; 0: no limit"
    ),
    "robots": Field(kind=bool, default=True, description="Obey robots.txt (RFC 9309)"),
    "reason": Field(
        kind=str, default="", pattern=r"[^\x00-\x1f]{0,200}", description="Why robots.txt is ignored there"
    ),
    "rotate_denied": Field(kind=bool, default=False, description="Try another exit after 401, 403 and 451"),
    "allow_http": Field(kind=bool, default=False, description="Fetch by plain http, too"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The rules for a domain and its subdomains."""

    name: str
    requests_per_second: float = 1.0
    concurrency: int = 2
    robots: bool = True
    reason: str = ""
    rotate_denied: bool = False
    allow_http: bool = False


@dataclass(slots=True)
class Domains:
    """The allowed domains; with `any_domain` all others are allowed, too, under the default rules."""

    state: StateTable
    any_domain: bool = False
    allow_http: bool = False
    _cache: tuple[float, dict[str, Domain]] = field(default=(-CACHE_SECONDS, {}), repr=False)

    def find(self, host: str) -> Domain | None:
        """The rules for a host: those of the longest domain that matches; None if it is not allowed."""
        domains = self._cached()
        parts = host.split(".")
        for start in range(len(parts)):
            domain = domains.get(".".join(parts[start:]))
            if domain is not None:
                return domain
        return Domain(name=host, allow_http=self.allow_http) if self.any_domain else None

    def all(self) -> list[Domain]:
        """Every allowed domain, by name."""
        return [_domain(name, value) for name, value in sorted(self._stored().items())]

    def put(self, name: str, body: Mapping[str, Any]) -> Domain:
        """Allows a domain under these rules; raises Invalid."""
        domain = Domain(name=name, **read_fields(body, DOMAIN_FIELDS))
        if not domain.robots and not domain.reason.strip():
            raise Invalid([{"field": "reason", "message": "required if robots is false; it is part of each result"}])
        self._store(self._stored() | {name: asdict(domain)})
        return domain

    def remove(self, name: str) -> bool:
        """Removes a domain; False if it was not allowed."""
        stored = self._stored()
        if stored.pop(name, None) is None:
            return False
        self._store(stored)
        return True

    def _cached(self) -> dict[str, Domain]:
        loaded_at, domains = self._cache
        if time.monotonic() - loaded_at >= CACHE_SECONDS:
            domains = {domain.name: domain for domain in self.all()}
            self._cache = time.monotonic(), domains
        return domains

    def _stored(self) -> dict[str, Any]:
        return dict(self.state.get(DOMAIN_LIMITS_STATE_KEY) or {})

    def _store(self, value: dict[str, Any]) -> None:
        self.state.put(DOMAIN_LIMITS_STATE_KEY, value)
        self._cache = (-CACHE_SECONDS, {})


def _domain(name: str, value: Mapping[str, Any]) -> Domain:
    names = {field.name for field in fields(Domain)}
    return Domain(**{key: item for key, item in value.items() if key in names} | {"name": name})
