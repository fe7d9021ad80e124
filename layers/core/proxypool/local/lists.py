"""Serves a reader's file as a list on the web, on loopback: a source of kind url can be tried without one."""

from __future__ import annotations

import threading
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from proxypool.local.process import LOOPBACK

SERVE = "serve"  # the file; the API knows nothing of it


def served(source: dict[str, Any]) -> dict[str, Any]:
    """The source with the URL under which its file is served from now on; one without a file as it is."""
    if SERVE not in source:
        return source
    file = Path(source[SERVE])
    rest = {name: value for name, value in source.items() if name != SERVE}
    return rest | {"url": f"{_server(file.parent)}/{quote(file.name)}", "allow_http": True}


class _Quiet(SimpleHTTPRequestHandler):
    """Files with Last-Modified, and 304 for who has them."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


@cache
def _server(folder: Path) -> str:
    """A server of this folder's files, for as long as this process lives."""
    server = ThreadingHTTPServer((LOOPBACK, 0), partial(_Quiet, directory=str(folder)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://{LOOPBACK}:{server.server_address[1]}"
