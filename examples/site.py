"""A site to scrape, on loopback: a login, a hundred pages that require it, and three that fail until `POST /repair`.

    python examples/site.py [port]

`GET /requests` lists the requests for pages, with path, exit and user.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FAILING = {"/page/97", "/page/98", "/page/99"}


class Shop(ThreadingHTTPServer):
    """The site, its logins and its recorded requests."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.logins: dict[str, str] = {}  # cookie → user
        self.requests: list[dict[str, Any]] = []
        self.is_repaired = False


class Handler(BaseHTTPRequestHandler):
    """Handles one request."""

    server: Shop

    def do_GET(self) -> None:
        """A page, for users who are logged in."""
        if self.path in ("/robots.txt", "/requests"):
            status = 200 if self.path == "/requests" else 404
            return self._respond(status, json.dumps(self.server.requests), "application/json")
        user = self.server.logins.get(self._cookie())
        self.server.requests.append({"path": self.path, "exit": self.client_address[0], "user": user})
        if user is None:
            return self._respond(401, "log in first")
        if self.path in FAILING and not self.server.is_repaired:
            return self._respond(500, "broken")
        return self._respond(200, f"<html><h1>{self.path}</h1><p class='user'>{user}</p></html>")

    def do_POST(self) -> None:
        """`/login` sets a cookie; `/repair` repairs the failing pages."""
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        if self.path == "/repair":
            self.server.is_repaired = True
            return self._respond(204, "")
        name = secrets.token_hex(8)
        self.server.logins[name] = body.partition("user=")[2].partition("&")[0]
        return self._respond(200, "welcome", cookie=f"sid={name}; Path=/; HttpOnly")

    def _cookie(self) -> str:
        cookie = SimpleCookie(self.headers.get("cookie", "")).get("sid")
        return cookie.value if cookie else ""

    def _respond(self, status: int, text: str, kind: str = "text/html", cookie: str = "") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        if cookie:
            self.send_header("set-cookie", cookie)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing."""


if __name__ == "__main__":
    shop = Shop(int(sys.argv[1]) if len(sys.argv) > 1 else 8099)
    print(f"a site on http://127.0.0.1:{shop.server_address[1]}/ until Ctrl-C", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        shop.serve_forever()
