"""Sessions: cookies, tokens and headers of a login, shared by workers. A JSON body in Redis with a version and a sliding end.

A session belongs to its owner: the same id of another owner is another session. The body carries a schema version; a body
with an unknown one is treated as missing. It is never executed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from proxypool.errors import NotFound, VersionConflict
from proxypool.leases.redis.cache import Cache

SCHEMA: Final = 1
SESSION_ID: Final = r"[A-Za-z0-9._-]{1,64}"  # no colon, which separates owner and id in the key
_SESSION_ID: Final = re.compile(SESSION_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A stored session; `body` contains cookies, tokens and headers."""

    id: str
    version: int
    body: dict[str, Any]
    ttl_seconds: int

    def json(self) -> dict[str, Any]:
        """The JSON of GET /sessions/{id}."""
        return {"id": self.id, "version": self.version, "ttl_seconds": self.ttl_seconds, **self.body}


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of one pool. They expire `idle_seconds` after the last use, at most `life_seconds` after their creation."""

    cache: Cache
    idle_seconds: int
    life_seconds: int

    def get(self, owner: str, session_id: str) -> Session:
        """Reads the session and extends it; raises NotFound if it is unknown, another owner's or expired."""
        found = self.cache.run("session_get", self.idle_seconds, self.life_seconds, key=self._key(owner, session_id))
        body = json.loads(found[0]) if found else {}
        if body.pop("v", None) != SCHEMA:
            raise NotFound
        return Session(id=session_id, version=int(found[1]), body=body, ttl_seconds=int(found[2]))

    def put(self, owner: str, session_id: str, *, body: dict[str, Any], version: int) -> Session:
        """Stores the body if the stored version is still `version` (0: a new session); raises VersionConflict."""
        text = json.dumps({"v": SCHEMA, **body}, separators=(",", ":"))
        answer = self.cache.run(
            "session_put", text, version, self.idle_seconds, self.life_seconds, key=self._key(owner, session_id)
        )
        if not answer[0]:
            raise VersionConflict("the session was changed by another request", version=int(answer[1]))
        return Session(id=session_id, version=int(answer[1]), body=body, ttl_seconds=int(answer[2]))

    def delete(self, owner: str, session_id: str) -> None:
        """Removes the session; raises NotFound."""
        if not self.cache.command("UNLINK", self._key(owner, session_id)):
            raise NotFound

    def _key(self, owner: str, session_id: str) -> str:
        if not _SESSION_ID.fullmatch(session_id):
            raise NotFound
        return f"{{s:{self.cache.keys.pool}:{owner}:{session_id}}}"
