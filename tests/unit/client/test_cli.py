"""The commands `lease`, `release`, `fetch` and `leases` against a loopback API: requests, output and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proxypool_client.cli.app import app
from proxypool_client.cli.output import EXIT_CODES, Exit
from typer.testing import CliRunner

from tests.support.service import Service, service

LEASE = {
    "id": "a.1", "proxy_id": "b", "proxy_url": "http://u:s3cret@198.51.100.1:80", "protocol": "http", "exit_ip": "198.51.100.1",
    "country": "us", "anonymity": "elite", "score": 0.5, "fence": "1-0", "expires_at": "2026-11-30T12:00:00.000Z", "ttl_seconds": 60,
}  # fmt: skip
EMPTY = (409, {"type": "pool_empty", "title": "none is free", "reasons": {"leased": 3}}, {"retry-after": "30"})
GONE: Any = (404, {"type": "not_found", "title": "Not found"}, {})


@pytest.fixture(name="service")
def _service() -> Iterator[Service]:
    with service() as found:
        yield found


def run(service: Service, *words: str) -> Any:
    """The result of a command."""
    return CliRunner().invoke(app, [*words, "--url", service.url])


def test_a_lease_prints_its_url_alone_on_stdout(service: Service) -> None:
    """For `$(proxypool lease)` in a shell."""
    service.script = [(201, LEASE, {})]

    found = run(
        service, "lease", "--country", "us", "--https", "--ttl", "60", "--min-score", "0.5", "--anonymity", "elite"
    )

    assert (found.exit_code, found.stdout) == (0, LEASE["proxy_url"] + "\n")  # type: ignore[operator]
    assert "a.1" in found.stderr
    assert service.requests[0][3] == {
        "country": "us", "https": True, "ttl_seconds": 60, "min_score": 0.5, "anonymity": "elite",
    }  # fmt: skip


def test_a_lease_as_json_is_the_apis_object(service: Service) -> None:
    service.script = [(201, LEASE, {})]

    assert json.loads(run(service, "lease", "--json").stdout) == LEASE


def test_a_release_reports_the_outcome(service: Service) -> None:
    service.script = [(204, None, {}), (204, None, {})]

    assert run(service, "release", "a.1", "--outcome", "blocked").stdout == "released\n"
    assert json.loads(run(service, "release", "a.1", "--json").stdout) == {"released": "a.1"}
    assert service.routes == ["POST /leases/a.1/release"] * 2
    assert [body for *_, body in service.requests] == [{"outcome": "blocked"}, {}]


def test_leases_are_listed_without_their_passwords_and_one_is_shown(service: Service) -> None:
    """I19: terminals have scrollback; --json prints the API's response unchanged."""
    service.script = [(200, {"leases": [LEASE]}, {}), (200, LEASE, {}), (200, {"leases": []}, {})]

    found = run(service, "leases")

    assert found.stdout.split("\t")[:3] == ["a.1", "b", "198.51.100.1"]
    assert "s3cret" not in found.output
    assert json.loads(run(service, "leases", "a.1", "--json").stdout) == LEASE
    assert run(service, "leases").stdout == ""


def test_a_page_is_fetched_through_a_lease_which_is_released(service: Service) -> None:
    """The loopback API is the proxy as well: it receives the page's absolute URL."""
    service.script = [
        (201, LEASE | {"proxy_url": service.url}, {}),
        (200, b"<p>the page", {}),
        (204, None, {}),
    ]

    found = run(service, "fetch", "http://page.example/a")

    assert (found.exit_code, found.stdout) == (0, "<p>the page\n")
    assert service.routes == ["POST /leases", "GET http://page.example/a", "POST /leases/a.1/release"]
    assert service.requests[-1][3] == {"outcome": "ok"}


def test_a_proxy_that_does_not_work_is_reported_and_the_command_fails(service: Service) -> None:
    service.script = [(201, LEASE | {"proxy_url": "http://127.0.0.1:9"}, {}), (204, None, {})]

    found = run(service, "fetch", "http://page.example/a", "--json")

    assert found.exit_code == Exit.FAILED
    assert "could not be fetched" in json.loads(found.stderr.splitlines()[-1])["title"]
    assert service.requests[-1][3] == {"outcome": "proxy_error"}


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (EMPTY, Exit.EMPTY, "3 leased"),
        (GONE, Exit.EMPTY, "Not found"),
        ((401, {"type": "unidentified", "title": "no identity"}, {}), Exit.CREDENTIALS, "AWS_ACCESS_KEY_ID"),
        ((403, {"message": "Forbidden"}, {}), Exit.CREDENTIALS, "Forbidden"),
        ((422, {"type": "invalid", "title": "bad", "errors": [{"field": "ttl_seconds", "message": "no"}]}, {}),
         Exit.FAILED, "ttl_seconds: no"),
        ((409, {"type": "idempotency_conflict", "title": "another request"}, {}), Exit.FAILED, "another request"),
        ((503, {"type": "rebuilding", "title": "being rebuilt"}, {"retry-after": "9"}), Exit.FAILED, "being rebuilt"),
        ((502, b"<html>", {}), Exit.UNREACHABLE, "502"),
        ("drop", Exit.UNREACHABLE, "does not respond"),
    ],
    ids=["empty", "unknown", "401", "403", "422", "409", "503", "502", "drop"],
)  # fmt: skip
@pytest.mark.parametrize("as_json", [True, False])
def test_every_error_is_one_line_on_stderr_and_an_exit_code(
    service: Service, answer: Any, code: Exit, text: str, as_json: bool
) -> None:
    """Case 33: the error of an empty pool has the reasons."""
    service.script = [answer]

    found = run(service, "lease", *(["--json"] if as_json else []))

    assert (found.exit_code, found.stdout) == (code, "")
    assert len(found.stderr.splitlines()) == 1
    if as_json:
        assert isinstance(json.loads(found.stderr), dict)
    else:
        assert found.stderr.startswith("proxypool: ")
        assert text in found.stderr


@pytest.mark.parametrize(
    "words",
    [["lease", "--ttl", "soon"], ["lease", "--colour", "red"], ["release"], ["nothing"], ["fetch", "ftp://a.example"],
     ["fetch", "http://a b"], ["help", "me"]],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage_is_code_2_and_sends_no_request(service: Service, words: list[str]) -> None:
    found = CliRunner().invoke(app, words, env={"PROXYPOOL_URL": service.url})

    assert found.exit_code == Exit.USAGE
    assert service.requests == []


def test_a_missing_pool_is_reported_as_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROXYPOOL_URL", raising=False)
    monkeypatch.chdir(tmp_path)

    found = CliRunner().invoke(app, ["lease"])

    assert found.exit_code == Exit.UNREACHABLE
    assert "PROXYPOOL_URL" in found.stderr


def test_the_help_lists_every_exit_code() -> None:
    """As text and as JSON."""
    text = CliRunner().invoke(app, ["help", "exit-codes"]).stdout
    as_json = json.loads(CliRunner().invoke(app, ["help", "--json"]).stdout)

    assert [int(line.split("\t")[0]) for line in text.splitlines()] == [0, *Exit]
    assert list(as_json.values()) == list(EXIT_CODES.values())


def command(code: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the console script in a new process, after `code`."""
    main = f"import sys; sys.argv = ['proxypool', *sys.argv[1:]]; {code}\nfrom proxypool_client.cli.app import main; main()"
    env = {**os.environ, "PROXYPOOL_URL": "http://127.0.0.1:9"} | environment
    return subprocess.run([sys.executable, "-c", main, *words], capture_output=True, text=True, env=env)


BROKEN = "import proxypool_client.api as api; api.json.dumps = lambda *_: 1 / 0"


def test_an_unexpected_error_is_one_line_without_a_traceback() -> None:
    found = command(BROKEN, "lease")

    assert (found.returncode, found.stdout) == (Exit.FAILED, "")
    assert found.stderr == "proxypool: ZeroDivisionError: division by zero\n"


def test_a_traceback_is_printed_with_proxypool_debug() -> None:
    assert "Traceback" in command(BROKEN, "lease", PROXYPOOL_DEBUG="1").stderr


def test_the_commands_of_an_installed_service_are_listed() -> None:
    listed = command("pass", "--help").stdout

    assert all(
        verb in listed for verb in ("lease", "fetch", "leases", "up", "down", "status", "sources", "proxies", "dlq")
    )


def test_ctrl_c_is_130() -> None:
    interrupted = (
        "import proxypool_client.pool as pool\ndef stop(*_): raise KeyboardInterrupt\npool.Pool.__init__ = stop"
    )

    assert command(interrupted, "release", "a.1").returncode == Exit.INTERRUPTED
