"""A site to scrape, on loopback: a login, a hundred pages behind it, a few that fail until they are mended.

    python examples/site.py [port]

`/seen` tells which page was asked for by which exit, with whose cookie.
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
    """The site and what it remembers."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Visitor)
        self.logins: dict[str, str] = {}  # cookie → user
        self.seen: list[dict[str, Any]] = []
        self.is_mended = False


class Visitor(BaseHTTPRequestHandler):
    """One request."""

    server: Shop

    def do_GET(self) -> None:
        """A page, for those who are logged in."""
        if self.path in ("/robots.txt", "/seen"):
            return self._say(200 if self.path == "/seen" else 404, json.dumps(self.server.seen), "application/json")
        user = self.server.logins.get(self._cookie())
        self.server.seen.append({"path": self.path, "exit": self.client_address[0], "user": user})
        if user is None:
            return self._say(401, "log in first")
        if self.path in FAILING and not self.server.is_mended:
            return self._say(500, "broken")
        return self._say(200, f"<html><h1>{self.path}</h1><p class='user'>{user}</p></html>")

    def do_POST(self) -> None:
        """`/login` sets a cookie; `/mend` repairs the failing pages."""
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        if self.path == "/mend":
            self.server.is_mended = True
            return self._say(204, "")
        name = secrets.token_hex(8)
        self.server.logins[name] = body.partition("user=")[2].partition("&")[0]
        return self._say(200, "welcome", cookie=f"sid={name}; Path=/; HttpOnly")

    def _cookie(self) -> str:
        found = SimpleCookie(self.headers.get("cookie", "")).get("sid")
        return found.value if found else ""

    def _say(self, status: int, text: str, kind: str = "text/html", cookie: str = "") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        if cookie:
            self.send_header("set-cookie", cookie)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


if __name__ == "__main__":
    shop = Shop(int(sys.argv[1]) if len(sys.argv) > 1 else 8099)
    print(f"a site on http://127.0.0.1:{shop.server_address[1]}/ until Ctrl-C", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        shop.serve_forever()
