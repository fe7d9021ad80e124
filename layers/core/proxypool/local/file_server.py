"""Serves a user's file over HTTP on loopback, so that a source with a URL can be tried without a web server."""

from __future__ import annotations

import threading
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

from proxypool.local.process import LOOPBACK


def serve_file(file: Path) -> str:
    """The URL of the file, served until this process ends. The file's folder is served with it."""
    return f"{_server(file.parent)}/{quote(file.name)}"


class _QuietHandler(SimpleHTTPRequestHandler):
    """Files with Last-Modified, and 304 if unchanged; no access log."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Discards the message."""


@cache
def _server(folder: Path) -> str:
    """The base URL of a server for this folder; one per folder."""
    server = ThreadingHTTPServer((LOOPBACK, 0), partial(_QuietHandler, directory=str(folder)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://{LOOPBACK}:{server.server_address[1]}"
