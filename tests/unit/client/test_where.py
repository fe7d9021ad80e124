"""Where the pool is: said, set, or found beside the work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from proxypool_client import NoPool
from proxypool_client.api import find_url, region_of
from proxypool_client.api import signed as signed_headers
from proxypool_client.local_stack import find_stack


def a_stack(folder: Path, text: str | None = None) -> Path:
    """A folder in which a local stack runs."""
    file = folder / ".local" / "stack.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"api_url": "http://127.0.0.1:1/api/"}) if text is None else text)
    return file


def test_what_is_said_goes_before_what_is_set_before_what_runs_here(tmp_path: Path) -> None:
    a_stack(tmp_path)
    environment = {"PROXYPOOL_URL": "https://set.example/"}

    assert find_url("https://said.example", environment=environment, folder=tmp_path) == "https://said.example"
    assert find_url(environment=environment, folder=tmp_path) == "https://set.example"
    assert find_url(environment={}, folder=tmp_path) == "http://127.0.0.1:1/api"


def test_the_nearest_stack_of_this_and_the_folders_above_is_found(tmp_path: Path) -> None:
    far, near = a_stack(tmp_path), a_stack(tmp_path / "a" / "b")
    (tmp_path / "a" / "b" / "c").mkdir()

    assert find_stack(tmp_path / "a" / "b" / "c") == near
    assert find_stack(tmp_path / "a") == far


def test_no_pool_anywhere_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoPool, match=r"make up.*PROXYPOOL_URL"):
        find_url(environment={}, folder=tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"api_url": 5}', "\x00"])
def test_a_torn_file_is_one_line_not_a_crash(tmp_path: Path, text: str) -> None:
    a_stack(tmp_path, text)

    with pytest.raises(NoPool, match="cannot be read"):
        find_url(environment={}, folder=tmp_path)


@pytest.mark.parametrize("url", ["example.com", "ftp://a.example", "file:///etc/passwd", "https://", "localhost:80"])
def test_an_address_that_is_not_an_http_url_is_refused(url: str) -> None:
    with pytest.raises(NoPool, match="not an http or https URL"):
        find_url(url)


@pytest.mark.parametrize(
    ("url", "signed"),
    [
        ("https://a.example", True),
        ("http://127.0.0.1:1", False),
        ("http://localhost:1", False),
        ("http://[::1]:1", False),
    ],
)
def test_requests_are_signed_but_to_loopback(monkeypatch: pytest.MonkeyPatch, url: str, signed: bool) -> None:
    """Nobody checks a signature on this machine, and the key has nothing to do there."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    headers = signed_headers(url, "", "GET", "/leases", {}, b"")

    assert ("authorization" in headers) is signed


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://a.example", "Bearer a.b.c"),
        ("http://127.0.0.1:1", "Bearer a.b.c"),
        ("http://a.example", None),  # whoever listens could go on with it
    ],
)
def test_a_token_goes_before_a_signature_and_never_over_the_net_in_clear(
    monkeypatch: pytest.MonkeyPatch, url: str, sent: str | None
) -> None:
    """I19."""
    monkeypatch.setenv("PROXYPOOL_TOKEN", "a.b.c")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    authorization = signed_headers(url, "", "GET", "/leases", {}, b"")["authorization"]

    assert authorization == sent or (sent is None and authorization.startswith("AWS4-HMAC-SHA256"))


@pytest.mark.parametrize(
    ("url", "environment", "region"),
    [
        ("https://a1b2.execute-api.eu-west-1.amazonaws.com", {"AWS_REGION": "us-west-2"}, "eu-west-1"),
        ("https://a1b2.execute-api.cn-north-1.amazonaws.com.cn", {}, "cn-north-1"),
        ("https://pool.example", {"AWS_REGION": "us-west-2", "AWS_DEFAULT_REGION": "x"}, "us-west-2"),
        ("https://pool.example", {"AWS_DEFAULT_REGION": "eu-north-1"}, "eu-north-1"),
        ("https://pool.example", {}, "us-east-1"),
    ],
)
def test_a_request_is_signed_for_the_region_that_the_address_names(
    url: str, environment: dict[str, str], region: str
) -> None:
    """A wrong one is a 403 that says nothing of regions."""
    assert region_of(url, environment) == region


def test_the_package_loads_an_http_library_only_when_it_is_used() -> None:
    """The command line starts without it."""
    code = "import proxypool_client, proxypool_client.cli, sys; print('httpx' in sys.modules); proxypool_client.Pool; print('httpx' in sys.modules)"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert found.split() == ["False", "True"]
