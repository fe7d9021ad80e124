"""The HTTP side: where the pool is, one signed or plain request, its answer or its error."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from proxypool_client.errors import (
    LeaseLost,
    NoPool,
    NotAllowed,
    PoolEmpty,
    Refused,
    Unreachable,
    VersionConflict,
)
from proxypool_client.local_stack import LocalUrl, find_stack, is_loopback, read_stack
from proxypool_client.sigv4 import Credentials, sign

TIMEOUT_SECONDS = 10.0  # for a request in all
THROTTLED, THROTTLED_SECONDS = 429, "1"  # the gateway's own 429 does not say when


def find_url(given: str = "", *, environment: Mapping[str, str] = os.environ, folder: Path | None = None) -> str:
    """The API's address: the one given, else PROXYPOOL_URL, else that of the stack which runs in this or a parent folder
    (a LocalUrl).

    Raises NoPool where there is none, none that is an http(s) URL, or a local stack's file that is not to be trusted.
    """
    found = given or environment.get("PROXYPOOL_URL", "")
    if not found:
        file = find_stack(folder)
        if file is None:
            raise NoPool("no pool is known here: start one with `make up`, or set PROXYPOOL_URL")
        found = LocalUrl(read_stack(file)["api_url"])
    parts = urlsplit(found)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NoPool("the pool's address is not an http or https URL")
    return type(found)(found.rstrip("/"))


@dataclass(slots=True)
class Api:
    """One connection to a pool. Requests carry the token of PROXYPOOL_TOKEN, or are signed (SigV4) with the environment's key.

    Proxy settings of the environment are ignored: what asks for a proxy must not go through one by accident.
    """

    url: str
    owner: str = ""  # on a local stack only: who asks
    region: str = ""  # empty: the one that the address names, else the environment's
    _http: httpx.Client = field(default_factory=lambda: httpx.Client(trust_env=False), repr=False)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float = TIMEOUT_SECONDS,
    ) -> Any:
        """The answer's JSON (None where it has no body), within so many seconds.

        Raises Refused or one of its kinds, or Unreachable.
        """
        content = b"" if body is None else json.dumps(body).encode()
        sent = {"content-type": "application/json"} if content else {}
        sent |= dict(headers or {}) | ({"x-proxypool-owner": self.owner} if self.owner else {})
        try:
            answer = self._http.request(
                method,
                self.url + path,
                content=content,
                headers=signed(self.url, self.region, method, path, sent, content),
                timeout=limits(seconds),
            )
        except httpx.HTTPError as error:
            raise unreachable(self.url, error) from error
        return read(answer)

    def close(self) -> None:
        """Ends the connection."""
        self._http.close()


def signed(url: str, region: str, method: str, path: str, headers: dict[str, str], content: bytes) -> dict[str, str]:
    """The headers with what says who asks: the token of PROXYPOOL_TOKEN, else a signature (SigV4) where the environment has a key.

    A token goes by https or to loopback, and nowhere else; to loopback nobody signs; a LocalUrl gets neither.
    """
    if isinstance(url, LocalUrl):
        return headers
    parts = urlsplit(url)
    local = is_loopback(parts.hostname)
    token = os.environ.get("PROXYPOOL_TOKEN", "")
    if token and (local or parts.scheme == "https"):
        return headers | {"authorization": f"Bearer {token}"}
    if local or "AWS_ACCESS_KEY_ID" not in os.environ:
        return headers
    keys, place = Credentials.from_environment(os.environ), region or region_of(url, os.environ)
    return sign(method, url + path, headers, content, service="execute-api", region=place, credentials=keys)


def region_of(url: str, environment: Mapping[str, str]) -> str:
    """The region that a request to this address is signed for: API Gateway's own names say it, else AWS_REGION does."""
    named = re.search(r"\.execute-api\.([a-z0-9-]+)\.", urlsplit(url).hostname or "")
    if named:
        return named[1]
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"


def unreachable(url: str, error: httpx.HTTPError) -> Unreachable:
    """The error for a pool that gave no answer."""
    return Unreachable(f"the pool at {urlsplit(url).netloc} does not answer ({type(error).__name__})")


def limits(seconds: float) -> httpx.Timeout:
    """Limits of a request's steps that add up to the whole."""
    return httpx.Timeout(connect=0.4 * seconds, write=0.1 * seconds, read=0.4 * seconds, pool=0.1 * seconds)


def read(answer: httpx.Response) -> Any:
    """An answer's JSON (None where it has no body); raises Refused or one of its kinds, or Unreachable."""
    try:
        value = answer.json() if answer.content else None
    except ValueError as error:
        raise Unreachable(f"HTTP {answer.status_code} without JSON") from error
    if answer.status_code < 400:
        return value
    problem = value if isinstance(value, dict) else {}
    after = answer.headers.get("retry-after", THROTTLED_SECONDS if answer.status_code == THROTTLED else "")
    if answer.status_code in (401, 403):
        raise NotAllowed(answer.status_code, problem)
    kind = _KINDS.get(str(problem.get("type")), Refused)
    raise kind(answer.status_code, problem, int(after) if after.isdecimal() else None)


_KINDS = {"pool_empty": PoolEmpty, "not_found": LeaseLost, "version_conflict": VersionConflict}
