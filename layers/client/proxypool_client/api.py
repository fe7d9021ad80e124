"""HTTP requests to the API: its URL, authentication, and responses as JSON or as errors."""

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
    ApiError,
    LeaseLost,
    NoPool,
    NotAllowed,
    PoolEmpty,
    Unreachable,
    VersionConflict,
)
from proxypool_client.local_stack import LocalUrl, find_stack, is_loopback, read_stack
from proxypool_client.sigv4 import Credentials, sign

TIMEOUT_SECONDS = 10.0  # of a whole request
THROTTLED, THROTTLED_SECONDS = 429, "1"  # a 429 of API Gateway has no Retry-After


def find_url(given: str = "", *, environment: Mapping[str, str] = os.environ, folder: Path | None = None) -> str:
    """The URL of the API: `given`, else PROXYPOOL_URL, else that of the local stack of `folder` (default: the current folder) or
    of a folder above it (a LocalUrl).

    Raises NoPool if there is none, if it is not an http(s) URL, or if the local stack's file cannot be read or trusted.
    """
    url = given or environment.get("PROXYPOOL_URL", "")
    if not url:
        file = find_stack(folder)
        if file is None:
            raise NoPool("no pool is configured: start one with `make up`, or set PROXYPOOL_URL")
        url = LocalUrl(read_stack(file)["api_url"])
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NoPool("the pool's address is not an http or https URL")
    return type(url)(url.rstrip("/"))


@dataclass(slots=True)
class Api:
    """A connection pool to the API. `signed` describes how requests authenticate.

    Proxy settings of the environment are ignored, so that a request for a proxy never uses one by accident.
    """

    url: str
    owner: str = ""  # the caller's name; on a local stack only
    region: str = ""  # for SigV4; "": the region in the URL, else in the environment
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
        """The JSON of the response (None if it has no body); `seconds` limits the whole request.

        Raises ApiError or a subclass of it, or Unreachable.
        """
        content = b"" if body is None else json.dumps(body).encode()
        sent = {"content-type": "application/json"} if content else {}
        sent |= dict(headers or {}) | ({"x-proxypool-owner": self.owner} if self.owner else {})
        try:
            response = self._http.request(
                method,
                self.url + path,
                content=content,
                headers=sign_headers(self.url, self.region, method, path, sent, content),
                timeout=timeouts(seconds),
            )
        except httpx.HTTPError as error:
            raise unreachable_error(self.url, error) from error
        return parse_response(response)

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()


def sign_headers(
    url: str, region: str, method: str, path: str, headers: dict[str, str], content: bytes
) -> dict[str, str]:
    """The headers with authentication added: the token of PROXYPOOL_TOKEN, else a signature (SigV4) with the environment's key.

    The token is sent over https or to loopback only; requests to loopback are not signed; a LocalUrl needs neither.
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
    credentials, region = Credentials.from_environment(os.environ), region or signing_region(url, os.environ)
    return sign(method, url + path, headers, content, service="execute-api", region=region, credentials=credentials)


def signing_region(url: str, environment: Mapping[str, str]) -> str:
    """The region for the signature: of API Gateway's host name, else AWS_REGION, AWS_DEFAULT_REGION or us-east-1."""
    match = re.search(r"\.execute-api\.([a-z0-9-]+)\.", urlsplit(url).hostname or "")
    if match:
        return match[1]
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"


def unreachable_error(url: str, error: httpx.HTTPError) -> Unreachable:
    """The error of a request without a response."""
    return Unreachable(f"the pool at {urlsplit(url).netloc} does not respond ({type(error).__name__})")


def timeouts(seconds: float) -> httpx.Timeout:
    """Time limits of a request's phases; their sum is `seconds`."""
    return httpx.Timeout(connect=0.4 * seconds, write=0.1 * seconds, read=0.4 * seconds, pool=0.1 * seconds)


def parse_response(response: httpx.Response) -> Any:
    """The JSON of a response (None if it has no body); raises ApiError or a subclass of it, or Unreachable."""
    try:
        value = response.json() if response.content else None
    except ValueError as error:
        raise Unreachable(f"HTTP {response.status_code} without JSON") from error
    if response.status_code < 400:
        return value
    problem = value if isinstance(value, dict) else {}
    retry_after = response.headers.get("retry-after", THROTTLED_SECONDS if response.status_code == THROTTLED else "")
    if response.status_code in (401, 403):
        raise NotAllowed(response.status_code, problem)
    error_class = _ERRORS_BY_TYPE.get(str(problem.get("type")), ApiError)
    raise error_class(response.status_code, problem, int(retry_after) if retry_after.isdecimal() else None)


_ERRORS_BY_TYPE = {"pool_empty": PoolEmpty, "not_found": LeaseLost, "version_conflict": VersionConflict}
