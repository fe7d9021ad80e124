"""A pool's API on loopback that responds from a script and records its requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Service:
    """`script`: (status, body, headers) per request, or "drop" for a connection that is closed without a response."""

    url: str = ""
    script: list[Any] = field(default_factory=list)
    requests: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)  # method, path, headers, body

    @property
    def routes(self) -> list[str]:
        """The requested routes, e.g. "GET /leases"."""
        return [f"{method} {path}" for method, path, _, _ in self.requests]


@contextmanager
def service() -> Iterator[Service]:
    """Runs a service while the block runs."""
    running = Service()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"null")
            running.requests.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            response = running.script.pop(0)
            if response == "drop":
                return
            status, value, headers = response
            raw = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            for name, text in {"content-length": str(len(raw)), **headers}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815  the server's names

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Logs nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        running.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield running
        server.shutdown()
        thread.join()
