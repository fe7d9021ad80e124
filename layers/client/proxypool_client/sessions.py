"""A session as the pool stores it: cookies, tokens and headers that any worker can go on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proxypool_client import clock
from proxypool_client.cookies import Jar, from_json, to_json


@dataclass(slots=True, kw_only=True)
class Session:
    """What one login left behind. `version` is the one it was read at, 0 where nothing is stored yet."""

    id: str
    version: int = 0
    jar: Jar = field(default_factory=Jar)
    tokens: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The body of PUT /sessions/{id}."""
        cookies = to_json(self.jar.live(now=clock.now().timestamp()))
        return {"version": self.version, "cookies": cookies, "tokens": self.tokens, "headers": self.headers}

    def over(self, newer: Session | None) -> Session:
        """This session's own changes on top of what somebody else saved meanwhile."""
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


def session_of(answer: Mapping[str, Any]) -> Session:
    """A session from the answer of GET /sessions/{id}."""
    return Session(
        id=str(answer["id"]),
        version=int(answer["version"]),
        jar=Jar.of(from_json(answer.get("cookies", ()))),
        tokens=dict(answer.get("tokens", {})),
        headers=dict(answer.get("headers", {})),
    )
