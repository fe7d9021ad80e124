"""All errors of the package, under one root. An expected result (a failed check, an empty pool) is a value until it leaves by HTTP.

ProxyPoolError
├── ConfigurationError        the environment lacks a setting, or has one that cannot be read
├── AddressRefused            an address, port or URL that the pool does not connect to
├── MessageError              a queue message that no retry can make readable
├── AwsError                  a call of AWS failed (aws)
├── SendFailed                a queue did not accept some messages (aws.queues)
├── Throttled                 DynamoDB throttled statements at every retry (aws.dynamodb)
├── StatementRefused          DynamoDB refused a statement for another reason than its condition (aws.dynamodb)
├── ErrorReply                Redis answered a command with an error (leases.redis.connection)
├── TransportError            a connection to or through a proxy failed (network.faults)
├── SourceError               a source could not be fetched or read (a retry may help)
├── Unusable                  a list that cannot be previewed (sources.preview)
├── StageFailed               a check ends at this stage (checks.probe.context)
├── InvalidAnswer             a judge's answer is not accepted (checks.judge.answer)
│   └── ContentMismatch · NonceMissing · ForgedAnswer · ReplayedAnswer · TamperedAnswer · UnsignedAnswer
├── RequestRefused            a job's request is not sent (jobs.fetch.page)
├── FetchFailed               a job's page did not arrive (jobs.fetch.page)
├── RateLimited               a domain has no turn soon (jobs.fetch.gate)
├── Requeue                   a job has to wait for a proxy or a turn (jobs.run)
├── TransformError            a page is not what its transform reads (jobs.transforms)
├── ResultTooLarge            a job's result is over the bound (jobs.store.result)
├── LocalStackError           the stack on this machine (local.process)
│   └── ApiRefused
├── Denied                    a request that the local stack refuses (local.emulation.guard)
├── SocksRefused              the farm's proxy refuses a client (local.farm.socks)
└── ApiError                  leaves the API as problem details; each class has its own status
    ├── 400 NotJson · 401 Unidentified · 403 Forbidden · 404 NotFound · 405 MethodNotAllowed
    ├── 409 PoolEmpty · IdempotencyConflict · VersionConflict
    ├── 413 TooLarge · 415 UnsupportedMediaType · 422 Invalid · 429 QuotaExceeded
    └── 503 Rebuilding · Paused · Unavailable (and its NoAnswer: Redis did not answer, leases.redis.cache)

What only the command line raises is under `proxypool_client.errors.PoolError`. In `tests/unit/test_errors.py` the tree is compared with
the classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

MAX_RETRY_AFTER_SECONDS = 30
RETRY_AFTER_SECONDS = 5  # where nothing better is known


class ProxyPoolError(Exception):
    """The root of all errors that this package defines."""


class ConfigurationError(ProxyPoolError):
    """An environment variable is missing or cannot be read."""

    def __init__(self, variable: str, reason: str = "") -> None:
        super().__init__(f"environment variable {variable} is missing or cannot be read{reason and f': {reason}'}")
        self.variable = variable


class MessageError(ProxyPoolError):
    """A message is not what its queue carries; it goes to the dead-letter queue with this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AddressRefused(ProxyPoolError):
    """An address, port or URL is malformed or not public; `reason` is a `network.address.Refusal`."""

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
        """The answer's headers: Retry-After in whole seconds, where it is known when a retry may help."""
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


class UnsupportedMediaType(ApiError):
    """The body has a content type other than JSON, or none: what a web page can send without asking."""

    status, type, title = 415, "unsupported_media_type", "The content type is not application/json"


class Unidentified(ApiError):
    """The request context names no owner."""

    status, type, title = 401, "unidentified", "The caller has no identity"


class Forbidden(ApiError):
    """The owner may not do this."""

    status, type, title = 403, "forbidden", "The caller may not do this"


class NotFound(ApiError):
    """Unknown, another owner's, expired or released: the same answer for all four, so that nobody can tell which."""

    status, type, title = 404, "not_found", "Not found"


class MethodNotAllowed(ApiError):
    """The path exists, but not with this method; `allow` are its methods."""

    status, type, title = 405, "method_not_allowed", "Method not allowed"

    def __init__(self, allow: Iterable[str]) -> None:
        self.allow = ", ".join(sorted(set(allow)))
        super().__init__(f"allowed: {self.allow}")

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
    """The row was changed since the caller read it."""

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
    """The owner holds as many leases as it may."""

    status, type, title = 429, "quota", "The owner's quota is used up"


class Rebuilding(ApiError):
    """The index was lost and is being rebuilt."""

    status, type, title = 503, "rebuilding", "The pool is being rebuilt"


class Unavailable(ApiError):
    """A service that the answer needs cannot be reached."""

    status, type, title = 503, "unavailable", "The pool cannot be reached"


class Paused(ApiError):
    """The operator has stopped the pool."""

    status, type, title = 503, "paused", "The pool is paused"
