"""The routes of leases and sessions. `lease` imports this at its cold start: standard library only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proxypool.config.settings import Settings
from proxypool.errors import IdempotencyConflict, Paused, PoolEmpty, QuotaExceeded, Rebuilding, VersionConflict
from proxypool.http import caller
from proxypool.http.caller import Right
from proxypool.http.fields import json_schema
from proxypool.http.operation import INTEGER, TEXT, Operation, Schema, array, object_, ref
from proxypool.http.router import Mount, Router
from proxypool.http.web import Event
from proxypool.leases import api
from proxypool.leases.pool import Lease, Pool
from proxypool.leases.sessions import api as session_api
from proxypool.leases.sessions.store import SESSION_ID_PATTERN, Session, Sessions


def schemas() -> Mapping[str, Schema]:
    """The schemas of the answers. A function: the lease function does not need them."""
    session = json_schema(Session)
    return {
        "Lease": json_schema(Lease),
        "Leases": object_(leases=array(ref("Lease"))),
        "SavedSession": object_(**{name: session["properties"][name] for name in ("id", "version", "ttl_seconds")}),
        "Session": session,
    }


def lease_operations(settings: Settings) -> tuple[Operation[Pool], ...]:
    """The routes of leases, with the limits of these settings."""
    one, either = ref("Lease"), {"oneOf": [ref("Lease"), ref("Leases")]}
    return (
        Operation(
            route="POST /leases", name="acquireLease", summary="Lease a proxy for exclusive use", right=Right.USER,
            description="One lease where `count` is 1, else `leases`. 200 repeats the answer to the same Idempotency-Key.",
            call=api.acquire, body=api.lease_fields(settings), is_body_required=False, headers={api.KEY_HEADER: api.KEY_FIELD},
            answers={201: either, 200: either},
            errors=(PoolEmpty, IdempotencyConflict, QuotaExceeded, Rebuilding, Paused),
        ),
        Operation(
            route="GET /leases", name="listLeases", summary="Your live leases, in order of expiry", right=Right.USER,
            call=api.list_leases, answers={200: ref("Leases")}, errors=(Rebuilding,),
        ),
        Operation(
            route="GET /leases/{id}", name="readLease", summary="One of your live leases", right=Right.USER,
            call=api.read_lease, id_pattern=api.LEASE_ID_PATTERN, answers={200: one}, errors=(Rebuilding,),
        ),
        Operation(
            route="DELETE /leases/{id}", name="dropLease", summary="Release a lease without an outcome", right=Right.USER,
            call=api.drop, id_pattern=api.LEASE_ID_PATTERN, answers={204: None}, errors=(Rebuilding,),
        ),
        Operation(
            route="POST /leases/{id}/release", name="releaseLease", summary="Release a lease and report its outcome",
            right=Right.USER, call=api.release, id_pattern=api.LEASE_ID_PATTERN, body=api.RELEASE_FIELDS, is_body_required=False,
            answers={204: None}, errors=(Rebuilding,),
        ),
        Operation(
            route="POST /leases/{id}/renew", name="renewLease", summary="Extend a lease", right=Right.USER,
            call=api.renew, id_pattern=api.LEASE_ID_PATTERN, body=api.renew_fields(settings), is_body_required=False,
            answers={200: one}, errors=(Rebuilding,),
        ),
        Operation(
            route="POST /leases/{id}/report", name="reportOutcome", summary="Report an outcome and keep the lease",
            right=Right.USER, call=api.report, id_pattern=api.LEASE_ID_PATTERN, body=api.REPORT_FIELDS,
            answers={204: None}, errors=(Rebuilding,),
        ),
        Operation(
            route="POST /leases/release", name="releaseLeases", summary="Release several leases", right=Right.USER,
            call=api.release_many, body=api.RELEASE_MANY_FIELDS,
            answers={200: object_(released=INTEGER, unknown=array(TEXT))}, errors=(Rebuilding,),
        ),
    )  # fmt: skip


def session_operations() -> tuple[Operation[Sessions], ...]:
    """The routes of sessions."""
    return (
        Operation(
            route="GET /sessions/{id}", name="readSession", summary="Read a session and extend its idle time",
            right=Right.USER, call=session_api.get, id_pattern=SESSION_ID_PATTERN, answers={200: ref("Session")},
        ),
        Operation(
            route="PUT /sessions/{id}", name="saveSession", summary="Store a session if its version is the one you read",
            right=Right.USER, call=session_api.put, id_pattern=SESSION_ID_PATTERN, body_schema=session_api.SESSION_SCHEMA,
            max_body_bytes=session_api.MAX_SESSION_BYTES,
            answers={201: ref("SavedSession"), 200: ref("SavedSession")}, errors=(VersionConflict,),
        ),
        Operation(
            route="DELETE /sessions/{id}", name="endSession", summary="Remove a session", right=Right.USER,
            call=session_api.delete, id_pattern=SESSION_ID_PATTERN, answers={204: None},
        ),
    )  # fmt: skip


def router(settings: Settings, pool: Callable[[], Pool], sessions: Callable[[], Sessions]) -> Router:
    """The router of `lease`. The worker's role may name the owner that it acts for."""

    def identify(event: Event) -> caller.Caller:
        found = caller.identify(event, local=settings.allow_loopback)
        return caller.on_behalf(event, found, worker_role_id=settings.worker_role_id)

    return Router(
        Mount(lease_operations(settings), pool),
        Mount(session_operations(), sessions),
        identify=identify,
        admin_scope=settings.admin_scope,
    )
