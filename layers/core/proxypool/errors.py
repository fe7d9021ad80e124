"""All errors of the package, under one root. Expected results (a failed check, an empty pool) are values; only HTTP turns them into errors.

ProxyPoolError
├── ConfigurationError        an environment variable is missing or cannot be read
├── AddressRefused            an address, port or URL that the pool must not connect to
├── MessageError              a queue message that cannot be decoded
├── AwsError                  a call to AWS failed (aws)
├── SendFailed                a queue did not accept some messages (aws.queues)
├── Throttled                 DynamoDB throttled statements in every attempt (aws.dynamodb)
├── StatementRefused          DynamoDB refused a statement for another reason than a failed condition (aws.dynamodb)
├── ErrorReply                Redis answered a command with an error (leases.redis.connection)
├── TransportError            a connection to or through a proxy failed (network.faults)
├── SourceError               a source could not be fetched or read; a retry may help
├── PreviewFailed             a list cannot be previewed (sources.preview)
├── StageFailed               a stage of a check failed (checks.probe.context)
├── InvalidAnswer             the answer of a judge is not accepted (checks.judge.answer)
│   └── ContentMismatch · NonceMissing · ForgedAnswer · ReplayedAnswer · TamperedAnswer · UnsignedAnswer
├── RequestRefused            the request of a job was not sent (jobs.fetch.page)
├── FetchFailed               the page of a job could not be fetched (jobs.fetch.page)
├── RateLimited               the rate limit of a domain is exhausted (jobs.fetch.gate)
├── Requeue                   a job has to wait for a proxy or a rate limit (jobs.run)
├── TransformError            a transform cannot read its page (jobs.transforms)
├── ResultTooLarge            the result of a job exceeds the size limit (jobs.store.result)
├── LocalStackError           the local stack failed (local.process)
│   └── ApiRefused
├── Denied                    the local stack refuses a request (local.emulation.guard)
├── SocksRefused              a proxy of the farm refuses a client (local.farm.socks)
└── ApiError                  an error response of the API (problem details); each class has its own status
    ├── 400 NotJson · 401 Unidentified · 403 Forbidden · 404 NotFound · 405 MethodNotAllowed
    ├── 409 PoolEmpty · IdempotencyConflict · VersionConflict
    ├── 413 TooLarge · 415 UnsupportedMediaType · 422 Invalid · 429 QuotaExceeded
    └── 503 Rebuilding · Paused · Unavailable (and its NoAnswer: Redis did not answer, leases.redis.cache)

Errors of the command line are under `proxypool_client.errors.PoolError`. `tests/unit/test_errors.py` compares this tree with the
classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

MAX_RETRY_AFTER_SECONDS = 30
RETRY_AFTER_SECONDS = 5  # the default


class ProxyPoolError(Exception):
    """The root of all errors that this package defines."""


class ConfigurationError(ProxyPoolError):
    """An environment variable is missing or cannot be read."""

    def __init__(self, variable: str, reason: str = "") -> None:
        super().__init__(f"environment variable {variable} is missing or cannot be read{reason and f': {reason}'}")
        self.variable = variable


class MessageError(ProxyPoolError):
    """A message cannot be decoded; it is moved to the dead-letter queue with this reason."""

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
    """An error response of the API. Each class has a `status`, a `type` (stable, machine-readable) and a `title`."""

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
        """The response headers: Retry-After in whole seconds, if set."""
        return {} if self.retry_after_seconds is None else {"retry-after": str(self.retry_after_seconds)}

    def problem(self) -> dict[str, Any]:
        """The response body: problem details (RFC 9457) with the extra members of this error."""
        body: dict[str, Any] = {"type": self.type, "title": self.title, "status": self.status}
        if self.detail:
            body["detail"] = self.detail
        return body | dict(self.extra)


class NotJson(ApiError):
    """The body is not a valid JSON object."""

    status, type, title = 400, "not_json", "The body is not a JSON object"


class UnsupportedMediaType(ApiError):
    """The content type is missing or not JSON; a web page can send such a request without a CORS preflight."""

    status, type, title = 415, "unsupported_media_type", "The content type is not application/json"


class Unidentified(ApiError):
    """The request context names no owner."""

    status, type, title = 401, "unidentified", "The caller has no identity"


class Forbidden(ApiError):
    """The caller lacks the permission."""

    status, type, title = 403, "forbidden", "The caller may not do this"


class NotFound(ApiError):
    """Unknown, owned by another owner, expired or released. The response is the same for all four, so that it discloses nothing."""

    status, type, title = 404, "not_found", "Not found"


class MethodNotAllowed(ApiError):
    """The path exists, but not with this method; `allow` lists its methods."""

    status, type, title = 405, "method_not_allowed", "Method not allowed"

    def __init__(self, allow: Iterable[str]) -> None:
        self.allow = ", ".join(sorted(set(allow)))
        super().__init__(f"allowed: {self.allow}")

    @property
    def headers(self) -> dict[str, str]:
        """The Allow header that HTTP requires."""
        return {"allow": self.allow}


class PoolEmpty(ApiError):
    """No proxy that matches the request is free; `reasons` counts why."""

    status, type, title = 409, "pool_empty", "No proxy that fits is free"


class IdempotencyConflict(ApiError):
    """The idempotency key was used for another request."""

    status, type, title = 409, "idempotency_conflict", "The idempotency key belongs to another request"


class VersionConflict(ApiError):
    """The row was changed since the caller read it, or it already exists."""

    status, type, title = 409, "version_conflict", "Version conflict"


class TooLarge(ApiError):
    """The body is larger than the limit of the route."""

    status, type, title = 413, "too_large", "The body is too large"


class Invalid(ApiError):
    """Fields of the request are invalid; `errors` names each."""

    status, type, title = 422, "invalid", "The request has invalid fields"

    def __init__(self, errors: Sequence[Mapping[str, str]]) -> None:
        super().__init__(errors=[dict(error) for error in errors])


class QuotaExceeded(ApiError):
    """The owner holds the maximum number of leases."""

    status, type, title = 429, "quota", "The owner's quota is used up"


class Rebuilding(ApiError):
    """The index was lost and is being rebuilt."""

    status, type, title = 503, "rebuilding", "The pool is being rebuilt"


class Unavailable(ApiError):
    """A service that the request needs cannot be reached."""

    status, type, title = 503, "unavailable", "The pool cannot be reached"


class Paused(ApiError):
    """The operator has paused the pool."""

    status, type, title = 503, "paused", "The pool is paused"
