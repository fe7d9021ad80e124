"""Requests to operations: path and method choose a row of the tables, its right is required, its values are read, its call made.

`lease` imports this at its cold start: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar
from urllib.parse import unquote

from proxypool.errors import ApiError, MethodNotAllowed, NotFound, Unavailable
from proxypool.http import web
from proxypool.http.caller import Caller
from proxypool.http.operation import ApiRequest, Operation, Reply

Service = TypeVar("Service")
RETRY_AFTER_SECONDS: Final = 5


class Mount(Generic[Service]):
    """Operations and the object that their calls use; `service` is called once per request that reaches one of them."""

    def __init__(self, operations: Iterable[Operation[Service]], service: Callable[[], Service]) -> None:
        self.operations = tuple(operations)
        self.service = service

    def respond(self, operation: Operation[Service], event: web.Event, caller: Caller, path_id: str) -> web.Response:
        """The response of one operation; raises ApiError."""
        request = ApiRequest(
            service=self.service(), caller=caller, id=path_id,
            body=_body(operation, event),
            query=web.read_query(event, operation.query) if operation.query else {},
            headers=_headers(operation, event),
        )  # fmt: skip
        result = operation.call(request)
        reply = result if isinstance(result, Reply) else Reply(operation.status, result)
        return web.respond(reply.status, reply.body)


class Router:
    """The operations of one function. `admin_scope` is the scope that operators' routes require of a token."""

    def __init__(self, *mounts: Mount[Any], identify: Callable[[web.Event], Caller], admin_scope: str) -> None:
        self._identify = identify
        self._admin_scope = admin_scope
        self._rows = [(row.path.split("/"), row, mount) for mount in mounts for row in mount.operations]

    @property
    def operations(self) -> Iterator[Operation[Any]]:
        """All rows."""
        return (row for _, row, _ in self._rows)

    def respond(self, event: web.Event) -> web.Response:
        """The response of the operation that the request names; raises ApiError: Unidentified, NotFound, MethodNotAllowed, …

        The right is required of the operation that is called, after the path was resolved: no second reading of the path
        decides about it.
        """
        caller = self._identify(event)
        segments = web.path(event).split("/")
        operation, mount = self._resolve(web.method(event), segments)
        caller.require(operation.right, admin_scope=self._admin_scope)
        path_id = _path_id(operation, segments)
        return mount.respond(operation, event, caller, path_id)

    def _resolve(self, method: str, segments: Sequence[str]) -> tuple[Operation[Any], Mount[Any]]:
        """A literal segment goes before {id}: /leases/release is not the lease "release"."""
        found = [(row, mount) for template, row, mount in self._rows if _matches(segments, template)]
        if not found:
            raise NotFound()
        allowed = [(row, mount) for row, mount in found if row.method == method]
        if not allowed:
            raise MethodNotAllowed(row.method for row, _ in found)
        return min(allowed, key=lambda pair: bool(pair[0].id_pattern))


def answer(
    event: web.Event, router: Callable[[], Router], *, on_error: Callable[[Exception, web.Event], None]
) -> web.Response:
    """The response to an event: every error becomes problem details here, and `on_error` logs those that are no ApiError."""
    try:
        return router().respond(event)
    except ApiError as error:
        return web.problem(error)
    except Exception as error:
        on_error(error, event)
        return web.problem(Unavailable("Internal error", retry_after_seconds=RETRY_AFTER_SECONDS))


def _matches(segments: Sequence[str], template: Sequence[str]) -> bool:
    return len(segments) == len(template) and all(
        bool(segment) if name == "{id}" else segment == name for segment, name in zip(segments, template, strict=True)
    )


def _path_id(operation: Operation[Any], segments: Sequence[str]) -> str:
    """The {id}, percent-decoded after the path was split: an encoded slash never makes another path. Raises NotFound."""
    if not operation.id_pattern:
        return ""
    path_id = unquote(segments[operation.path.split("/").index("{id}")])
    if not re.fullmatch(operation.id_pattern, path_id):
        raise NotFound()
    return path_id


def _body(operation: Operation[Any], event: web.Event) -> Mapping[str, Any]:
    if operation.body is None and operation.body_schema is None:
        return {}
    sent = web.body_object(event, optional=not operation.is_body_required, most=operation.max_body_bytes)
    if operation.body is None:
        return sent
    values = web.read_fields(sent, operation.body)
    return {name: values[name] for name in sent} if operation.is_partial else values


def _headers(operation: Operation[Any], event: web.Event) -> Mapping[str, Any]:
    if not operation.headers:
        return {}
    sent = {name: web.header(event, name.lower()) for name in operation.headers}
    return web.read_fields({name: text for name, text in sent.items() if text}, operation.headers)
