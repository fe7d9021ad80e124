"""Options shared by all commands that call the API, and the call itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from proxypool_client.cli.output import client_errors

if TYPE_CHECKING:
    from proxypool_client.api import Api

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Url = Annotated[
    str,
    typer.Option("--url", help="URL of the pool's API; default: PROXYPOOL_URL, else the local stack of this folder."),
]


@contextmanager
def connected(url: str, as_json: bool) -> Iterator[Api]:
    """A connection to the API, closed at the end; errors of the client exit with one line and their code."""
    from proxypool_client.api import Api, find_url  # imports httpx: not needed for --help

    with client_errors(as_json):
        api = Api(find_url(url))
        try:
            yield api
        finally:
            api.close()


def request(method: str, path: str, url: str, as_json: bool, body: Any = None) -> Any:
    """One API call: the response's JSON, None if it has no body."""
    with connected(url, as_json) as api:
        return api.request(method, path, body)


def path_part(name: str) -> str:
    """An id, percent-encoded as one segment of a path."""
    return quote(name, safe="")
