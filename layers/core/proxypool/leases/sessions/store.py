"""Sessions: cookies, tokens and headers of a login, shared by workers. JSON in Redis with a version and a sliding expiry.

A session belongs to its owner: the same id of another owner is another session. The JSON has a schema version; one with an
unknown version is treated as missing. It is never executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from proxypool.errors import NotFound, VersionConflict
from proxypool.http.codec import Codec, Meta
from proxypool.http.fields import to_arguments
from proxypool.http.operation import BOOLEAN, TEXT, Schema, array, map_, object_
from proxypool.leases.redis.cache import Cache

SCHEMA_VERSION: Final = 1
SESSION_ID_PATTERN: Final = r"[A-Za-z0-9._-]{1,64}"  # no colon, which separates owner and id in the key
_SESSION_ID: Final = re.compile(SESSION_ID_PATTERN)
MAX_COOKIES: Final = 3_000
MAX_PAIRS: Final = 100
COOKIE_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "name": TEXT,
    "value": TEXT,
    "domain": TEXT,
    "path": TEXT,
    "expires_at": {"type": ["integer", "null"], "description": "Epoch seconds; null: with the session"},
    "secure": BOOLEAN,
    "http_only": BOOLEAN,
    "host_only": BOOLEAN,
}
COOKIE_REQUIRED: Final = ("name", "value", "domain")
_PAIRS: Final = {**map_(TEXT), "maxProperties": MAX_PAIRS}
CONTENT_FIELDS: Final[Mapping[str, Schema]] = {
    "cookies": {**array({**object_(**COOKIE_FIELDS), "required": list(COOKIE_REQUIRED)}), "maxItems": MAX_COOKIES},
    "tokens": _PAIRS,
    "headers": _PAIRS,
}
"""The members of a session's content, as JSON schemas."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Session:
    """A stored session. Its content is JSON, checked by PUT /sessions/{id}."""

    # fmt: off
    id: str = field(metadata=Meta(shown={}))
    version: int = field(metadata=Meta(shown={}))
    ttl_seconds: int = field(metadata=Meta(shown={}))
    cookies: Sequence[Mapping[str, Any]] = field(default=(), metadata=Meta(shown={}, codec=Codec(list, CONTENT_FIELDS["cookies"], list)))
    tokens: Mapping[str, str] = field(default_factory=dict, metadata=Meta(shown={}, codec=Codec(dict, CONTENT_FIELDS["tokens"])))
    headers: Mapping[str, str] = field(default_factory=dict, metadata=Meta(shown={}, codec=Codec(dict, CONTENT_FIELDS["headers"])))
    # fmt: on


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sessions:
    """The sessions of one pool. They expire `idle_seconds` after the last use, at most `life_seconds` after their creation."""

    cache: Cache
    idle_seconds: int
    life_seconds: int

    def get(self, owner: str, session_id: str) -> Session:
        """Reads the session and extends it; raises NotFound if it is unknown, another owner's or expired."""
        found = self.cache.run("session_get", self.idle_seconds, self.life_seconds, key=self._key(owner, session_id))
        content = json.loads(found[0]) if found else {}
        if content.pop("v", None) != SCHEMA_VERSION:
            raise NotFound
        return _session(session_id, found[1], found[2], content)

    def put(self, owner: str, session_id: str, *, content: Mapping[str, Any], version: int) -> Session:
        """Stores the content if the stored version is still `version` (0: a new session); raises VersionConflict."""
        text = json.dumps({"v": SCHEMA_VERSION, **content}, separators=(",", ":"))
        answer = self.cache.run(
            "session_put", text, version, self.idle_seconds, self.life_seconds, key=self._key(owner, session_id)
        )
        if not answer[0]:
            raise VersionConflict("the session was changed by another request", version=int(answer[1]))
        return _session(session_id, answer[1], answer[2], content)

    def delete(self, owner: str, session_id: str) -> None:
        """Removes the session; raises NotFound."""
        if not self.cache.command("UNLINK", self._key(owner, session_id)):
            raise NotFound

    def _key(self, owner: str, session_id: str) -> str:
        if not _SESSION_ID.fullmatch(session_id):
            raise NotFound
        return f"{{s:{self.cache.keys.pool}:{owner}:{session_id}}}"


def _session(session_id: str, version: str, ttl_seconds: str, content: Mapping[str, Any]) -> Session:
    return Session(
        **to_arguments(Session, {**content, "id": session_id, "version": version, "ttl_seconds": ttl_seconds})
    )
