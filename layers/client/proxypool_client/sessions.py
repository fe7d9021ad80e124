"""A session as the pool stores it: cookies, tokens and headers, usable by any worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proxypool_client import clock
from proxypool_client.cookies import Jar, from_json, to_json


@dataclass(slots=True, kw_only=True)
class Session:
    """The state of one login. `version` is the stored version that it was read from; 0: not stored yet."""

    id: str
    version: int = 0
    jar: Jar = field(default_factory=Jar)
    tokens: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The body of PUT /sessions/{id}."""
        cookies = to_json(self.jar.live(now=clock.now().timestamp()))
        return {"version": self.version, "cookies": cookies, "tokens": self.tokens, "headers": self.headers}

    def rebased_on(self, newer: Session | None) -> Session:
        """This session's own changes, applied to the version that another client saved. None: the stored one was deleted."""
        if newer is None:
            return Session(id=self.id, jar=self.jar, tokens=self.tokens, headers=self.headers)
        jar = self.jar.rebased(newer.jar.cookies.values(), now=clock.now().timestamp())
        return Session(
            id=self.id,
            version=newer.version,
            jar=jar,
            tokens=newer.tokens | self.tokens,
            headers=newer.headers | self.headers,
        )


def parse_session(response: Mapping[str, Any]) -> Session:
    """A session from the response of GET /sessions/{id}."""
    return Session(
        id=str(response["id"]),
        version=int(response["version"]),
        jar=Jar.from_cookies(from_json(response.get("cookies", ()))),
        tokens=dict(response.get("tokens", {})),
        headers=dict(response.get("headers", {})),
    )
