"""The lease routes, as the OpenAPI document tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from proxypool.errors import IdempotencyConflict, Paused, PoolEmpty, QuotaExceeded, Rebuilding, VersionConflict
from proxypool.leases.api import RELEASE_FIELDS, RELEASE_MANY_FIELDS, REPORT_FIELDS, lease_fields, renew_fields
from proxypool.leases.session_api import MEMBERS, SESSION_SCHEMA
from proxypool.operation import INSTANT, SHARE, TEXT, TRUTH, WHOLE, Operation, Schema, maybe, one_of, ref, rows, shape
from proxypool.proxies.proxy import Anonymity, Protocol
from proxypool.settings import Settings
from proxypool.web import Field

KEY: Final = Field(
    kind=str,
    pattern=r"[\x21-\x7e]{1,128}",
    description="Repeat it and you get the same leases, however often the request is sent",
)

_LEASE: Final = shape(
    id=TEXT,
    proxy_id=TEXT,
    proxy_url={**TEXT, "description": "With the proxy's credentials, percent-encoded"},
    protocol=one_of(*Protocol),
    exit_ip=maybe(TEXT),
    country=maybe(TEXT),
    anonymity=maybe(one_of(*Anonymity)),
    score=SHARE,
    fence={
        **TEXT,
        "description": "`ms-seq`: two numbers that only grow for one proxy",
        "pattern": "^[0-9]+-[0-9]+$",
    },
    expires_at=INSTANT,
    ttl_seconds={**WHOLE, "description": "From the grant to the end"},
)
_OF_A_SESSION: Final[Mapping[str, Schema]] = {
    "session_id": {**TEXT, "description": "Only where the lease is a session's"},
    "moved": {
        **TRUTH,
        "description": "Likewise: whether the session has just left the proxy that it had, or its name there",
    },
}

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Lease": {**_LEASE, "properties": _LEASE["properties"] | _OF_A_SESSION},
    "Leases": shape(leases=rows(ref("Lease"))),
    "SavedSession": shape(id=TEXT, version=WHOLE, ttl_seconds=WHOLE),
    "Session": shape(
        id=TEXT, version=WHOLE, ttl_seconds=WHOLE, **{name: MEMBERS[name] for name in ("cookies", "tokens", "headers")}
    ),
}
"""The shapes of the answers."""


def operations(settings: Settings) -> tuple[Operation, ...]:
    """The routes, with the limits of these settings."""
    one, either = ref("Lease"), {"oneOf": [ref("Lease"), ref("Leases")]}
    return (
        Operation(
            route="POST /leases", name="acquireLease", summary="Lease a proxy, yours alone for a while",
            description="One lease where `count` is 1, else `leases`. 200 repeats what the same Idempotency-Key got before.",
            body=lease_fields(settings), is_body_required=False, headers={"Idempotency-Key": KEY},
            answers={201: either, 200: either},
            errors=(PoolEmpty, IdempotencyConflict, QuotaExceeded, Rebuilding, Paused),
        ),
        Operation(
            route="GET /leases", name="listLeases", summary="Your live leases, soonest end first",
            answers={200: ref("Leases")}, errors=(Rebuilding,),
        ),
        Operation(
            route="GET /leases/{id}", name="readLease", summary="One of your live leases",
            answers={200: one}, errors=(Rebuilding,),
        ),
        Operation(
            route="DELETE /leases/{id}", name="dropLease", summary="Give a proxy back without an outcome",
            answers={204: None}, errors=(Rebuilding,),
        ),
        Operation(
            route="POST /leases/{id}/release", name="releaseLease", summary="Give a proxy back, and say what you found",
            body=RELEASE_FIELDS, is_body_required=False, answers={204: None}, errors=(Rebuilding,),
        ),
        Operation(
            route="POST /leases/{id}/renew", name="renewLease", summary="Keep a lease longer",
            body=renew_fields(settings), is_body_required=False, answers={200: one}, errors=(Rebuilding,),
        ),
        Operation(
            route="POST /leases/{id}/report", name="reportOutcome", summary="Say what you found, and keep the lease",
            body=REPORT_FIELDS, answers={204: None}, errors=(Rebuilding,),
        ),
        Operation(
            route="POST /leases/release", name="releaseLeases", summary="Give many back at once",
            body=RELEASE_MANY_FIELDS, answers={200: shape(released=WHOLE, unknown=rows(TEXT))}, errors=(Rebuilding,),
        ),
        Operation(
            route="GET /sessions/{id}", name="readSession", summary="What a login left behind; its end moves on",
            answers={200: ref("Session")},
        ),
        Operation(
            route="PUT /sessions/{id}", name="saveSession", summary="Store a session over the version that you read",
            schema=SESSION_SCHEMA, answers={200: ref("SavedSession"), 201: ref("SavedSession")}, errors=(VersionConflict,),
        ),
        Operation(
            route="DELETE /sessions/{id}", name="endSession", summary="Remove a session", answers={204: None},
        ),
    )  # fmt: skip
