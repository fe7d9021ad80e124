"""Access control of the emulated AWS: the Host header, web pages, and the secrets of the stack."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from proxypool.local.emulation.access import api_token, credentials, new_access_key
from proxypool.local.emulation.guard import Denied, admit, require_access_key

KEY = "0123456789abcdef0123456789abcdef"
TOKEN = api_token(KEY)
PORT = 4566
HOST = "127.0.0.1:4566"
API = f"/_local/{TOKEN}/_aws/execute-api/abc/leases"


def a_request(
    path: str = "/", *, method: str = "POST", query: str = "", host: str | None = HOST, **headers: str
) -> Any:
    """An ASGI scope; `headers` with _ for -."""
    named = ({} if host is None else {"host": host}) | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    raw = [(name.encode(), value.encode()) for name, value in named.items()]
    return {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(), "headers": raw}  # fmt: skip


def signed(key: str = KEY) -> dict[str, str]:
    """The Authorization header of a signed AWS request."""
    scope = "20261130/us-east-1/dynamodb/aws4_request"
    return {"authorization": f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders=host, Signature=0"}


def admitted(request: Any) -> Any:
    return admit(request, access_key=KEY, token=TOKEN.encode(), port=PORT)


def status(request: Any) -> int:
    """The status of the rejection, or 0."""
    try:
        admitted(request)
    except Denied as denied:
        return denied.status
    return 0


@pytest.mark.parametrize(
    "request_",
    [
        a_request(**signed()),
        a_request(host="localhost:4566", **signed()),
        a_request(host="[::1]:4566", **signed()),
        a_request(host="LOCALHOST:4566", **signed()),
        a_request("/bucket/key", query=f"X-Amz-Credential={KEY}%2F20261130%2Fus-east-1%2Fs3%2Faws4_request"),
        a_request("/bucket/key", query=f"AWSAccessKeyId={KEY}&Signature=x&Expires=1"),  # S3's older presigned form
        a_request(API),
        a_request(API, authorization="Bearer a.b.c"),  # the second API checks that itself
        a_request(sec_fetch_site="none", **signed()),  # typed into the address bar
        a_request("/_ministack/health", method="GET"),
    ],
)
def test_a_request_with_a_secret_of_the_stack_is_allowed(request_: Any) -> None:
    assert status(request_) == 0


@pytest.mark.parametrize("host", [None, "", "evil.example", "evil.example:4566", "127.0.0.1", "localhost", "127.0.0.1:80",
                                  "localhost.evil.example:4566", "127.0.0.1:4566.evil.example", "169.254.169.254:4566",
                                  "127.0.0.1:45660", "127.0.0.2:4566", "bucket.localhost:4566"])  # fmt: skip
@pytest.mark.parametrize("path", ["/", API, "/_ministack/health"])
def test_another_host_name_is_421_with_every_secret(path: str, host: str | None) -> None:
    """DNS rebinding: the name is that of a web page, the address is loopback."""
    assert status(a_request(path, method="GET", host=host, **signed())) == 421


@pytest.mark.parametrize("position", [0, 2], ids=["first", "last"])
def test_a_second_host_header_is_421(position: int) -> None:
    request = a_request(**signed())
    request["headers"].insert(position, (b"Host", b"evil.example"))

    assert status(request) == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},  # a sandboxed frame, a file
        {"origin": "http://127.0.0.1:4566"},  # an object of S3 that is a web page
        {"origin": ""},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},  # a page of another port
        {"sec_fetch_site": "same-origin"},
        {"origin": "https://evil.example", "access_control_request_method": "POST"},
    ],
)
@pytest.mark.parametrize("path", ["/", API, "/_ministack/health"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_web_page_is_403_with_every_secret(path: str, method: str, headers: dict[str, str]) -> None:
    assert status(a_request(path, method=method, **headers, **signed())) == 403


@pytest.mark.parametrize(
    "request_",
    [
        a_request(),
        a_request(authorization="", query="X-Amz-Credential=&AWSAccessKeyId="),
        a_request(**signed("test")),
        a_request(**signed("000000000000")),  # the emulator's account id
        a_request(**signed(KEY[:-1])),
        a_request(**signed(KEY + "0")),
        a_request(**signed(KEY.upper())),
        a_request(**signed(TOKEN)),  # the API's token is not an access key
        a_request(authorization=f"Bearer {KEY}"),
        a_request(authorization=f"Bearer x AWS4-HMAC-SHA256 Credential={KEY}/"),
        a_request(query=f"X-Amz-Credential=other&X-Amz-Credential={KEY}"),
        a_request(query="X-Amz-Credential=%ff%fe"),
        a_request("/_ministack/health", method="POST"),
        a_request("/_ministack/reset"),
        a_request("/_ministack/health/../reset", method="GET"),
        a_request("/_aws/execute-api/abc/leases"),
        a_request(
            f"/_local/{'0' * 32}/_aws/execute-api/abc/leases", **signed()
        ),  # a valid signature does not replace the token
        a_request("/_local//_aws/execute-api/abc/leases"),
        a_request(f"/_local/{TOKEN}x/_aws/execute-api/abc/leases"),
        a_request(f"/_local/{TOKEN}/_ministack/reset"),  # a token is valid for the HTTP APIs only
        a_request(f"/_local/{TOKEN}/"),
        a_request(f"/_local/{TOKEN}"),
        a_request(f"/_local/{TOKEN}/_aws/lambda-url/abc/"),
        a_request(
            f"/_local/{TOKEN}/_aws/execute-api/", x_amz_target="DynamoDB_20120810.Scan"
        ),  # no API: a service's request
        a_request(f"/_local/{TOKEN}/_aws/execute-api/abc", x_amz_target="DynamoDB_20120810.Scan"),
        a_request(f"/_local/{TOKEN}/_aws/execute-api//leases", x_amz_target="DynamoDB_20120810.Scan"),
        a_request(f"/_local/{TOKEN}/_aws/execute-api-of-another/"),
    ],
)
def test_without_the_right_secret_it_is_403(request_: Any) -> None:
    assert status(request_) == 403


def test_the_app_gets_the_path_without_the_token() -> None:
    found = admitted(a_request(API))

    assert (found["path"], found["raw_path"]) == ("/_aws/execute-api/abc/leases", b"/_aws/execute-api/abc/leases")


def test_a_rejection_is_problem_json_without_cors_headers() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def app(*_: Any) -> None:
        raise AssertionError("reached")

    request = a_request(origin="https://evil.example", method="OPTIONS")
    asyncio.run(require_access_key(app, access_key=KEY, port=PORT)(request, app, send))  # type: ignore[arg-type]

    start, body = sent
    assert (start["status"], start["headers"]) == (403, [(b"content-type", b"application/problem+json")])
    assert json.loads(body["body"])["title"] == "requests from web pages are not allowed"


def test_a_websocket_is_closed_before_it_opens() -> None:
    """A web page can open one to any host, without a preflight."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def app(*_: Any) -> None:
        raise AssertionError("reached")

    request = a_request(API, **signed()) | {"type": "websocket"}
    asyncio.run(require_access_key(app, access_key=KEY, port=PORT)(request, app, send))  # type: ignore[arg-type]

    assert [message["type"] for message in sent] == ["websocket.close"]


@pytest.mark.parametrize("key", ["", "test"])
def test_a_short_access_key_is_an_error(key: str) -> None:
    with pytest.raises(ValueError, match="at least 16"):
        require_access_key(None, access_key=key, port=PORT)  # type: ignore[arg-type]


def test_each_start_has_a_new_key_that_the_emulator_maps_to_the_default_account() -> None:
    keys = {new_access_key() for _ in range(100)}

    assert len(keys) == 100
    assert {len(key) for key in keys} == {32}  # twelve digits would be an account id


def test_a_session_token_of_the_environment_is_cleared() -> None:
    assert credentials(KEY)["AWS_SESSION_TOKEN"] == ""
