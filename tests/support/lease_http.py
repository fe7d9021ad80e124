"""The routes of the lease function as an HTTP server on loopback, for tests of clients."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from proxypool.config.settings import Settings
from proxypool.http import web
from proxypool.leases.pool import Pool
from proxypool.leases.sessions.store import Sessions

from tests.support.leases import respond


@contextmanager
def lease_api(pool: Pool, settings: Settings, before: Callable[[str], None] = lambda _: None) -> Iterator[str]:
    """Serves the leases and sessions of a pool; yields the URL. `before` is called with each route key, and may raise."""
    sessions = Sessions(pool.cache, settings.session_idle_seconds, settings.session_life_seconds)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            length = int(self.headers.get("content-length", 0))
            event = _event(self.command, self.path, dict(self.headers.items()), self.rfile.read(length))
            before(_route(self.command, self.path))
            response = respond(event, pool, settings, sessions)
            body = str(response.get("body", "")).encode()
            self.send_response(response["statusCode"])
            for name, value in response["headers"].items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _route(method: str, path: str) -> str:
    """The route of a request, e.g. "POST /leases/{id}/renew"."""
    _, collection, *rest = path.split("/")
    if rest and rest != ["release"]:
        rest[0] = "{id}"
    return f"{method} /{'/'.join([collection, *rest])}"


def _event(method: str, path: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
    return {
        "routeKey": "$default",
        "rawPath": path,
        "headers": {name.lower(): value for name, value in headers.items()},
        "requestContext": {"stage": "$default", "http": {"method": method}},
        "body": body.decode() or None,
    }


def as_json(response: web.Response) -> Any:
    """The body of a response."""
    return json.loads(response.get("body", "null"))
