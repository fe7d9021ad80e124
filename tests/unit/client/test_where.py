"""The URL of the pool: given, from the environment, or of a local stack."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import proxypool_client
import pytest
from proxypool_client import AsyncPool, NoPool, Pool
from proxypool_client.api import find_url, signing_region
from proxypool_client.api import sign_headers as signed_headers
from proxypool_client.local_stack import find_stack

from tests.support.service import service


def a_stack(folder: Path, text: str | None = None) -> Path:
    """A folder in which a local stack runs."""
    file = folder / ".local" / "stack.json"
    file.parent.mkdir(parents=True)
    file.parent.chmod(0o700)
    file.write_text(json.dumps({"api_url": "http://127.0.0.1:1/api/"}) if text is None else text)
    return file


def test_an_argument_has_precedence_over_the_environment_and_that_over_a_local_stack(tmp_path: Path) -> None:
    a_stack(tmp_path)
    environment = {"PROXYPOOL_URL": "https://set.example/"}

    assert find_url("https://given.example", environment=environment, folder=tmp_path) == "https://given.example"
    assert find_url(environment=environment, folder=tmp_path) == "https://set.example"
    assert find_url(environment={}, folder=tmp_path) == "http://127.0.0.1:1/api"


def test_the_nearest_stack_in_this_folder_or_above_is_found(tmp_path: Path) -> None:
    far, near = a_stack(tmp_path), a_stack(tmp_path / "a" / "b")
    (tmp_path / "a" / "b" / "c").mkdir()

    assert find_stack(tmp_path / "a" / "b" / "c") == near
    assert find_stack(tmp_path / "a") == far


def test_the_search_ends_at_the_repository_and_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders above these may belong to other users."""
    a_stack(tmp_path)
    repository, home = tmp_path / "repository", tmp_path / "home"
    (repository / "src").mkdir(parents=True)
    (repository / ".git").mkdir()
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))

    assert find_stack(repository / "src") is None
    assert find_stack(home / "work") is None

    at_root, at_home = a_stack(repository), a_stack(home)
    assert (find_stack(repository / "src"), find_stack(home / "work")) == (at_root, at_home)


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user can write /tmp/.local/stack.json, above another user's /tmp/project."""
    file = a_stack(tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: file.stat().st_uid + 1)

    with pytest.raises(NoPool, match=rf"^{file.parent} is not used: it belongs to another user$"):
        find_url(environment={}, folder=tmp_path)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    file = a_stack(tmp_path)
    file.chmod(mode)

    with pytest.raises(NoPool, match=rf"^{file} is not used: it can be written by other users$"):
        find_url(environment={}, folder=tmp_path)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_file_in_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    """They could replace the file."""
    file = a_stack(tmp_path)
    file.parent.chmod(mode)

    with pytest.raises(NoPool, match=rf"^{file.parent} is not used: it can be written by other users$"):
        find_url(environment={}, folder=tmp_path)


def test_a_file_that_a_killed_stack_left_behind_is_refused(tmp_path: Path) -> None:
    """Any user can listen on the port of a stack that is gone."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    at = {"api_url": "http://127.0.0.1:1"}
    a_stack(tmp_path / "running", json.dumps(at | {"children": {"aws": os.getpid()}}))
    assert find_url(environment={}, folder=tmp_path / "running") == "http://127.0.0.1:1"

    for number, pid in enumerate((gone.pid, 0, -1, 10**30)):
        a_stack(tmp_path / str(number), json.dumps(at | {"children": {"aws": pid}}))
        with pytest.raises(NoPool, match="its stack was killed"):
            find_url(environment={}, folder=tmp_path / str(number))


@pytest.mark.parametrize("linked", [".local", ".local/stack.json"])
def test_a_symbolic_link_is_refused(tmp_path: Path, linked: str) -> None:
    """Of a folder or of a file: the owner of the target did not create the link."""
    a_stack(tmp_path / "real")
    link = tmp_path / "here" / linked
    link.parent.mkdir(parents=True, mode=0o700)
    link.symlink_to(tmp_path / "real" / linked)

    with pytest.raises(NoPool, match=r"it or its folder is a symbolic link$"):
        find_url(environment={}, folder=tmp_path / "here")


@pytest.mark.parametrize(
    "address",
    ["http://192.0.2.1:1/", "https://evil.example/", "http://127.evil.example/", "http://localhost.evil.example/", "x"],
)
@pytest.mark.parametrize("name", ["api_url", "endpoint_url"])
def test_a_file_with_an_address_of_another_machine_is_refused(tmp_path: Path, name: str, address: str) -> None:
    a_stack(tmp_path, json.dumps({"api_url": "http://127.0.0.1:1", name: address}))

    with pytest.raises(NoPool, match=r"it names an address that is not on this machine$"):
        find_url(environment={}, folder=tmp_path)


def test_requests_to_the_address_of_a_file_have_no_token_and_no_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker without PROXYPOOL_URL sends no secret to that port; given as an argument, the same address gets the token."""
    monkeypatch.setenv("PROXYPOOL_TOKEN", "a.b.c")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("PROXYPOOL_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    with service() as listener:
        a_stack(tmp_path, json.dumps({"api_url": listener.url}))
        listener.script = [(200, {"leases": []}, {})] * 3

        with Pool() as from_file, Pool(listener.url) as from_argument:
            from_file.list(), from_argument.list()
        asyncio.run(_listed())

    assert [headers.get("authorization") for _, _, headers, _ in listener.requests] == [None, "Bearer a.b.c", None]


async def _listed() -> None:
    async with AsyncPool() as pool:
        await pool.request("GET", "/leases")


def test_the_error_without_a_pool_names_the_remedies(tmp_path: Path) -> None:
    with pytest.raises(NoPool, match=r"make up.*PROXYPOOL_URL"):
        find_url(environment={}, folder=tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"api_url": 5}', "\x00"])
def test_an_invalid_file_is_one_error_line(tmp_path: Path, text: str) -> None:
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
        ("http://127.a.example:1", True),  # a host name, not a loopback address
        ("http://[::1]:1", False),
    ],
)
def test_requests_are_signed_except_to_loopback(monkeypatch: pytest.MonkeyPatch, url: str, signed: bool) -> None:
    """A local stack does not verify signatures, so the key is not used there."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    headers = signed_headers(url, "", "GET", "/leases", {}, b"")

    assert ("authorization" in headers) is signed


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://a.example", "Bearer a.b.c"),
        ("http://127.0.0.1:1", "Bearer a.b.c"),
        ("http://a.example", None),  # an eavesdropper could use it
    ],
)
def test_a_token_has_precedence_over_a_signature_and_is_never_sent_unencrypted(
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
def test_a_request_is_signed_for_the_region_in_the_url(url: str, environment: dict[str, str], region: str) -> None:
    """A wrong region is a 403 without an explanation."""
    assert signing_region(url, environment) == region


def test_the_package_imports_httpx_on_first_use() -> None:
    """The command line starts without it."""

    code = "import proxypool_client, proxypool_client.cli.app, sys; print('httpx' in sys.modules); proxypool_client.Pool; print('httpx' in sys.modules)"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert found.split() == ["False", "True"]


def test_every_public_name_is_imported_from_its_module() -> None:
    """On first use, by a table of modules."""
    assert {getattr(proxypool_client, name).__name__ for name in proxypool_client.__all__} == set(
        proxypool_client.__all__
    )
