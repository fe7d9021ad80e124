"""A pool's API on loopback that answers from a script, and keeps what it was asked."""

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
    """`script`: (status, body, headers) per request, or "drop" for a connection that ends without an answer."""

    url: str = ""
    script: list[Any] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)  # method, path, headers, body

    @property
    def routes(self) -> list[str]:
        """What was asked for, e.g. "GET /leases"."""
        return [f"{method} {path}" for method, path, _, _ in self.asked]


@contextmanager
def service() -> Iterator[Service]:
    """A running one."""
    found = Service()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"null")
            found.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            answer = found.script.pop(0)
            if answer == "drop":
                return
            status, value, headers = answer
            raw = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            for name, text in {"content-length": str(len(raw)), **headers}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815  the server's names

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield found
        server.shutdown()
        thread.join()
