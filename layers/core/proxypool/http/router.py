"""Routes requests to operations: resolves path and method, checks the right, parses the values, calls the operation.

`lease` imports this during its cold start: standard library only.
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
    """Operations and the factory of their service, which is called once per request."""

    def __init__(self, operations: Iterable[Operation[Service]], service: Callable[[], Service]) -> None:
        self.operations = tuple(operations)
        self.service = service

    def respond(self, operation: Operation[Service], event: web.Event, caller: Caller, path_id: str) -> web.Response:
        """Calls the operation and returns its response; raises ApiError."""
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
    """The routes of one function. `admin_scope` is the token scope that operator routes require."""

    def __init__(self, *mounts: Mount[Any], identify: Callable[[web.Event], Caller], admin_scope: str) -> None:
        self._identify = identify
        self._admin_scope = admin_scope
        self._rows = [(row.path.split("/"), row, mount) for mount in mounts for row in mount.operations]

    @property
    def operations(self) -> Iterator[Operation[Any]]:
        """All operations."""
        return (row for _, row, _ in self._rows)

    def respond(self, event: web.Event) -> web.Response:
        """Dispatches a request; raises ApiError (Unidentified, NotFound, MethodNotAllowed, …).

        The right is checked on the resolved operation, so that it cannot differ from the one that is called.
        """
        caller = self._identify(event)
        segments = web.path(event).split("/")
        operation, mount = self._resolve(web.method(event), segments)
        caller.require(operation.right, admin_scope=self._admin_scope)
        path_id = _path_id(operation, segments)
        return mount.respond(operation, event, caller, path_id)

    def _resolve(self, method: str, segments: Sequence[str]) -> tuple[Operation[Any], Mount[Any]]:
        """The operation of a method and path. A literal segment takes precedence over {id}: /leases/release is not lease "release"."""
        matches = [(row, mount) for template, row, mount in self._rows if _matches(segments, template)]
        if not matches:
            raise NotFound()
        allowed = [(row, mount) for row, mount in matches if row.method == method]
        if not allowed:
            raise MethodNotAllowed(row.method for row, _ in matches)
        return min(allowed, key=lambda pair: bool(pair[0].id_pattern))


def answer(
    event: web.Event, router: Callable[[], Router], *, on_error: Callable[[Exception, web.Event], None]
) -> web.Response:
    """The response to an event. Errors become problem details; `on_error` is called for those other than ApiError."""
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
    """The {id}, percent-decoded after the path is split, so that an encoded slash cannot change the route. Raises NotFound."""
    if not operation.id_pattern:
        return ""
    path_id = unquote(segments[operation.path.split("/").index("{id}")])
    if not re.fullmatch(operation.id_pattern, path_id):
        raise NotFound()
    return path_id


def _body(operation: Operation[Any], event: web.Event) -> Mapping[str, Any]:
    if operation.body is None and operation.body_schema is None:
        return {}
    sent = web.body_object(event, optional=not operation.is_body_required, max_bytes=operation.max_body_bytes)
    if operation.body is None:
        return sent
    values = web.read_fields(sent, operation.body)
    return {name: values[name] for name in sent} if operation.is_partial else values


def _headers(operation: Operation[Any], event: web.Event) -> Mapping[str, Any]:
    if not operation.headers:
        return {}
    sent = {name: web.header(event, name.lower()) for name in operation.headers}
    return web.read_fields({name: text for name, text in sent.items() if text}, operation.headers)
