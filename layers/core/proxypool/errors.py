"""The tree of errors. An expected answer (a failed check, an empty pool) is a value, not an error, until it leaves by HTTP.

ProxyPoolError
├── ConfigurationError        the environment lacks something or cannot be read
├── MessageError              a queue message that no retry can make readable
├── AddressRefused            an address, port or URL that the pool does not touch
├── Throttled                 DynamoDB refused statements for their number (in table.py)
├── SourceError               a source could not be fetched or read (a retry may help)
└── ApiError                  leaves the API as problem details; one class per row of the table below
    ├── NotJson 400 · Invalid 422 · Unidentified 401 · Forbidden 403 · NotFound 404 · MethodNotAllowed 405
    ├── PoolEmpty 409 · IdempotencyConflict 409 · VersionConflict 409 · QuotaExceeded 429
    └── Rebuilding 503 · Unavailable 503 · Paused 503
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

MAX_RETRY_AFTER_SECONDS = 30


class ProxyPoolError(Exception):
    """The root of all errors that this project raises itself."""


class ConfigurationError(ProxyPoolError):
    """An environment variable is missing or cannot be read."""

    def __init__(self, variable: str, reason: str = "") -> None:
        super().__init__(f"environment variable {variable} is missing or cannot be read{reason and f': {reason}'}")
        self.variable = variable


class MessageError(ProxyPoolError):
    """A message is not what its queue carries; it ends in the dead-letter queue with this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AddressRefused(ProxyPoolError):
    """An address, port or URL is malformed or not public; `reason` is one word of a closed set."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SourceError(ProxyPoolError):
    """A source could not be fetched or read. `reason` is short and safe to log; `status` the HTTP status, if any."""

    def __init__(self, reason: str, *, status: int | None = None, retry_after_seconds: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class ApiError(ProxyPoolError):
    """An answer other than success: `status`, `type` (stable, machine-readable) and `title` are the class's."""

    status: ClassVar[int]
    type: ClassVar[str]
    title: ClassVar[str]

    def __init__(self, detail: str = "", *, retry_after_seconds: int | None = None, **extra: Any) -> None:
        super().__init__(detail or self.title)
        self.detail = detail
        self.retry_after_seconds = (
            None if retry_after_seconds is None else max(1, min(MAX_RETRY_AFTER_SECONDS, retry_after_seconds))
        )
        self.extra: Mapping[str, Any] = extra

    @property
    def headers(self) -> dict[str, str]:
        """What the answer's head says of the error: when a retry may help, in whole seconds, where that is known."""
        return {} if self.retry_after_seconds is None else {"retry-after": str(self.retry_after_seconds)}

    def problem(self) -> dict[str, Any]:
        """The body of the answer: problem details (RFC 9457) with this error's own members beside the standard ones."""
        body: dict[str, Any] = {"type": self.type, "title": self.title, "status": self.status}
        if self.detail:
            body["detail"] = self.detail
        return body | dict(self.extra)


class NotJson(ApiError):
    """The body is not the JSON object that the route reads."""

    status, type, title = 400, "not_json", "The body is not a JSON object"


class Unidentified(ApiError):
    """The request context names no owner."""

    status, type, title = 401, "unidentified", "The caller has no identity"


class Forbidden(ApiError):
    """The owner may not do this."""

    status, type, title = 403, "forbidden", "The caller may not do this"


class NotFound(ApiError):
    """Unknown, foreign, expired or released: the answer is the same for all four, so that nobody learns which."""

    status, type, title = 404, "not_found", "Not found"


class MethodNotAllowed(ApiError):
    """The path exists, the method does not; `allow` are those that it takes."""

    status, type, title = 405, "method_not_allowed", "The path does not take this method"

    def __init__(self, allow: Iterable[str]) -> None:
        self.allow = ", ".join(sorted(set(allow)))
        super().__init__(f"it takes {self.allow}")

    @property
    def headers(self) -> dict[str, str]:
        """Allow, as HTTP asks for."""
        return {"allow": self.allow}


class PoolEmpty(ApiError):
    """No proxy that fits is free; the counts say why."""

    status, type, title = 409, "pool_empty", "No proxy that fits is free"


class IdempotencyConflict(ApiError):
    """The idempotency key was used for another request."""

    status, type, title = 409, "idempotency_conflict", "The idempotency key belongs to another request"


class VersionConflict(ApiError):
    """The thing was changed by somebody else in between."""

    status, type, title = 409, "version_conflict", "Version conflict"


class TooLarge(ApiError):
    """The body is larger than the route reads."""

    status, type, title = 413, "too_large", "The body is too large"


class Invalid(ApiError):
    """Fields of the request are not what they must be: `errors` names each."""

    status, type, title = 422, "invalid", "The request has invalid fields"

    def __init__(self, errors: Sequence[Mapping[str, str]]) -> None:
        super().__init__(errors=[dict(error) for error in errors])


class QuotaExceeded(ApiError):
    """The owner holds as much as it may."""

    status, type, title = 429, "quota", "The owner's quota is used up"


class Rebuilding(ApiError):
    """The cache was lost and is being filled again."""

    status, type, title = 503, "rebuilding", "The pool is being rebuilt"


class Unavailable(ApiError):
    """Something that the answer needs cannot be reached."""

    status, type, title = 503, "unavailable", "The pool cannot be reached"


class Paused(ApiError):
    """The operator has stopped the pool."""

    status, type, title = 503, "paused", "The pool is paused"
