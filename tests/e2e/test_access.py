"""Access to a local stack: denied to web pages and to other users of the machine, who can connect to its ports."""

from __future__ import annotations

import base64
import io
import json
import socket
import stat
import sys
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.support.stack import LocalStack

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(120)]

PAGE = {"origin": "https://evil.example", "referer": "https://evil.example/", "sec-fetch-site": "cross-site"}
WITHOUT_PREFLIGHT = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "")
FUNCTIONS = "/2015-03-31/functions"


def send(method: str, url: str, content: str = "", **headers: str) -> httpx.Response:
    """One request; in names of `headers`, _ stands for -; empty ones are not sent."""
    sent = {name.replace("_", "-"): value for name, value in headers.items() if value}
    return httpx.request(method, url, content=content, headers=sent, trust_env=False, timeout=30)


def a_function(name: str) -> str:
    """The body of a CreateFunction request."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("app.py", "def handler(event, context):\n    return 1\n")
    code = {"ZipFile": base64.b64encode(data.getvalue()).decode()}
    role = "arn:aws:iam::000000000000:role/x"
    body = {"FunctionName": name, "Runtime": "python3.11", "Role": role, "Handler": "app.handler", "Code": code}
    return json.dumps(body)


def signed(key: str, target: str = "ListTables") -> dict[str, str]:
    """The headers of a DynamoDB request with an access key id and an invalid signature."""
    scope = "20261130/us-east-1/dynamodb/aws4_request"
    return {
        "authorization": f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders=host, Signature=0",
        "x_amz_target": f"DynamoDB_20120810.{target}",
        "content_type": "application/x-amz-json-1.0",
    }


def functions(stack: LocalStack) -> set[str]:
    return {one["FunctionName"] for one in stack.clients("lambda").list_functions()["Functions"]}


@pytest.mark.parametrize("kind", WITHOUT_PREFLIGHT)
@pytest.mark.parametrize("headers", [PAGE, {}], ids=["page", "user"])
def test_code_cannot_be_run_without_the_key(stack: LocalStack, headers: dict[str, str], kind: str) -> None:
    before = functions(stack)

    created = send("POST", stack.running.endpoint_url + FUNCTIONS, a_function("evil"), content_type=kind, **headers)
    invoked = send(
        "POST", f"{stack.running.endpoint_url}{FUNCTIONS}/evil/invocations", "{}", content_type=kind, **headers
    )

    assert (created.status_code, invoked.status_code) == (403, 403)
    assert functions(stack) == before


@pytest.mark.parametrize("key", ["test", "000000000000", ""])
def test_passwords_of_proxies_cannot_be_read_without_the_key(stack: LocalStack, key: str) -> None:
    body = json.dumps({"TableName": stack.running.outputs["ProxiesTable"]})

    answer = send("POST", stack.running.endpoint_url, body, **signed(key, "Scan"))

    assert (answer.status_code, "Items" in answer.text) == (403, False)


def test_the_same_request_succeeds_with_the_key(stack: LocalStack) -> None:
    """The control of the tests above and below."""
    answer = send("POST", stack.running.endpoint_url, "{}", **signed(stack.running.access_key))

    assert stack.running.outputs["ProxiesTable"] in answer.json()["TableNames"]


@pytest.mark.parametrize("path", ["/settings", "/sources"])
def test_a_preflight_of_a_page_allows_no_origin(stack: LocalStack, path: str) -> None:
    """Even if the page knows the URL."""
    wanted = {"access_control_request_method": "PATCH", "access_control_request_headers": "content-type"}

    answer = send("OPTIONS", stack.running.api_url + path, **PAGE, **wanted)

    assert (answer.status_code, answer.headers.get("access-control-allow-origin")) == (403, None)


@pytest.mark.parametrize("kind", WITHOUT_PREFLIGHT)
def test_requests_of_a_page_that_knows_the_url_are_rejected(stack: LocalStack, kind: str) -> None:
    answers = [
        send("POST", f"{stack.running.api_url}/proxies", '{"lines": "127.0.0.1:9"}', content_type=kind, **PAGE),
        send("POST", f"{stack.running.api_url}/pool/rebuild", content_type=kind, **PAGE),
    ]

    assert [answer.status_code for answer in answers] == [403, 403]


@pytest.mark.parametrize("path", ["/sources", "/proxies", "/leases"])
def test_the_api_requires_the_token_in_its_url(stack: LocalStack, path: str) -> None:
    without = f"{stack.running.endpoint_url}/_aws/execute-api/{stack.running.outputs['ApiId']}{path}"

    assert [send("GET", url).status_code for url in (without, stack.running.api_url + path)] == [403, 200]


def test_the_token_of_the_api_is_not_an_access_key(stack: LocalStack) -> None:
    """URLs are visible in `ps` and in the history of a shell."""
    token = stack.running.api_url.split("/")[4]

    as_key = send("POST", stack.running.endpoint_url, "{}", **signed(token))
    paths = ("", "_aws/execute-api/", "_aws/execute-api/abc")  # the emulator gives these to the service of X-Amz-Target
    as_path = [
        send("POST", f"{stack.running.endpoint_url}/_local/{token}/{path}", "{}", **signed("test")) for path in paths
    ]

    assert [answer.status_code for answer in (as_key, *as_path)] == [403] * 4


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "169.254.169.254", "127.0.0.1"])
def test_a_host_name_rebound_to_loopback_is_rejected(stack: LocalStack, host: str) -> None:
    port = stack.running.endpoint_url.rpartition(":")[2]

    api = send("GET", f"{stack.running.api_url}/sources", host=host.format(port=port))
    aws = send(
        "POST", stack.running.endpoint_url, "{}", host=host.format(port=port), **signed(stack.running.access_key)
    )

    assert (api.status_code, aws.status_code) == (421, 421)


def test_a_presigned_link_works(stack: LocalStack) -> None:
    """Its query contains the access key id."""
    s3, bucket = stack.clients("s3"), stack.running.outputs["BodiesBucket"]
    s3.put_object(Bucket=bucket, Key="note", Body=b"hello")
    link = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "note"})

    assert send("GET", link).text == "hello"
    assert send("GET", link.partition("?")[0]).status_code == 403
    assert send("GET", link, **PAGE).status_code == 403


@pytest.mark.parametrize("command", [b"INFO\r\n", b"*1\r\n$4\r\nINFO\r\n", b"FLUSHALL\r\n", b"AUTH test\r\nINFO\r\n"])
def test_valkey_requires_the_password(stack: LocalStack, command: bytes) -> None:
    port = int(stack.running.redis_url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(command)
        assert connection.recv(100).startswith((b"-NOAUTH", b"-WRONGPASS"))

    with redis.Redis.from_url(stack.running.redis_url) as owner:
        assert owner.dbsize() > 0


def test_files_of_the_stack_cannot_be_read_by_other_users(stack: LocalStack) -> None:
    root = stack.folder.parent
    readable = [
        str(path.relative_to(root))
        for path in (root, *root.rglob("*"))
        if not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]

    # unpacked function packages have their own modes, below a folder that other users cannot enter
    assert [path for path in readable if not path.startswith("demo/aws/tmp/")] == []
    assert stat.S_IMODE((root / "stack.json").stat().st_mode) == 0o600


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_the_key_is_not_in_the_arguments_of_a_process(stack: LocalStack) -> None:
    """All users of a machine can read the arguments of all processes."""
    seen = {path.parent.name: _text(path) for path in Path("/proc").glob("[0-9]*/cmdline")}

    assert str(stack.running.children["valkey"]) in seen
    assert [pid for pid, text in seen.items() if stack.running.access_key in text] == []


def test_the_functions_use_the_key_and_the_account_of_the_stack(stack: LocalStack) -> None:
    identity: dict[str, Any] = stack.clients("sts").get_caller_identity()

    assert identity["Account"] == "000000000000"
    stack.invoke("ExpireLeases")  # it reads and writes tables


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # ended meanwhile
        return ""
