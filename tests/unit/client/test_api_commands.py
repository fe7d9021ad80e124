"""The administrative commands against a loopback API: requests, output and exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proxypool_client.cli.app import app, load_all
from proxypool_client.cli.output import Exit
from typer.testing import CliRunner

from tests.support.service import Service, service

SOURCE = {"id": "s1", "name": "mine", "health": "healthy", "rows": 3, "valid": 2, "last_scraped_at": None}
PROXY = {
    "id": "a" * 20,
    "proxy": "http://198.51.100.1:80",
    "status": "active",
    "country": "de",
    "anonymity": "elite",
    "score": 0.5,
}
GONE: Any = (404, {"type": "not_found", "title": "Not found"}, {})


@pytest.fixture(name="service")
def _service() -> Iterator[Service]:
    load_all()
    with service() as found:
        yield found


def run(service: Service, *words: str) -> Any:
    """The result of a command."""
    return CliRunner().invoke(app, [*words, "--url", service.url])


def test_a_source_is_added_by_its_url_or_by_its_text(service: Service, tmp_path: Path) -> None:
    service.script = [(201, SOURCE, {}), (201, SOURCE, {})]
    file = tmp_path / "list.txt"
    file.write_text("198.51.100.1:80\n")

    by_url = run(service, "sources", "add", "https://a.example/list", "--name", "mine", "--json")
    by_text = run(service, "sources", "add", str(file), "--parser", "lines")

    assert json.loads(by_url.stdout) == SOURCE
    assert "id\ts1" in by_text.stdout
    assert [body for *_, body in service.requests] == [
        {"name": "mine", "parser": "auto", "url": "https://a.example/list"},
        {"name": "", "parser": "lines", "inline": "198.51.100.1:80\n"},
    ]


def test_a_file_that_is_not_text_is_wrong_usage(service: Service, tmp_path: Path) -> None:
    (tmp_path / "list.bin").write_bytes(b"\xff\xfe\x00")

    for name in ("list.bin", "missing.txt", "."):
        found = run(service, "sources", "add", str(tmp_path / name))
        assert (found.exit_code, len(found.stderr.splitlines())) == (Exit.USAGE, 1)
    assert service.requests == []


def test_sources_are_listed_and_scraped(service: Service) -> None:
    service.script = [(200, {"sources": [SOURCE]}, {})] * 2 + [(202, {"source_id": "s1", "queued": True}, {})] * 2

    assert run(service, "sources", "list").stdout.startswith("s1\tmine\thealthy\t\t3\t2\t")
    assert json.loads(run(service, "sources", "list", "--json").stdout) == {"sources": [SOURCE]}
    assert run(service, "sources", "scrape", "s1").stdout == "source_id\ts1\nqueued\tTrue\n"
    assert json.loads(run(service, "sources", "scrape", "s1", "--json").stdout)["queued"] is True
    assert service.routes == ["GET /sources"] * 2 + ["POST /sources/s1/scrape"] * 2


def test_stats_are_shown(service: Service) -> None:
    service.script = [(200, {"ready": 3, "proxies": {"active": 3}}, {})] * 2

    assert run(service, "stats").stdout == 'ready\t3\nproxies\t{"active": 3}\n'
    assert json.loads(run(service, "stats", "--json").stdout)["ready"] == 3


def test_proxies_are_listed_with_filters(service: Service) -> None:
    service.script = [(200, {"proxies": [PROXY], "next": None}, {})] * 3

    found = run(service, "proxies", "--status", "active", "--anonymity", "elite", "--country", "de", "--tag", "eu")

    assert found.stdout == f"{'a' * 20}\thttp://198.51.100.1:80\tactive\tde\telite\t0.5\n"
    assert service.routes == ["GET /proxies?status=active&country=de&anonymity=elite&tag=eu&limit=100"]
    assert run(service, "proxies", "list", "--limit", "7").stdout == found.stdout
    assert service.routes[1] == "GET /proxies?limit=7"
    assert json.loads(run(service, "proxies", "--json").stdout) == {"proxies": [PROXY], "next": None}


def test_a_long_list_is_requested_page_by_page_and_ends_with_the_token_of_the_next_page(service: Service) -> None:
    """A page may be short, or empty, while more follow."""
    service.script = [
        (200, {"proxies": [PROXY] * 1_000, "next": "b" * 20}, {}),
        (200, {"proxies": [], "next": "c" * 20}, {}),
        (200, {"proxies": [PROXY] * 200, "next": "d" * 20}, {}),
    ]

    found = run(service, "proxies", "--limit", "1200")

    assert len(found.stdout.splitlines()) == 1_200
    assert f"--next {'d' * 20}" in found.stderr
    assert [path.partition("?")[2] for _, path, _, _ in service.requests] == [
        "limit=1000", f"limit=200&next={'b' * 20}", f"limit=200&next={'c' * 20}",
    ]  # fmt: skip


def test_a_proxy_is_explained_removed_and_restored(service: Service) -> None:
    explained = PROXY | {"explain": {"leasable": True, "reasons": []}}
    service.script = [(200, explained, {}), (204, None, {}), (204, None, {}), (200, PROXY, {}), (200, PROXY, {})]
    name = str(PROXY["id"])

    assert '"leasable": true' in run(service, "proxies", "explain", name).stdout
    assert run(service, "proxies", "remove", name).stdout == f"removed\t{name}\n"
    assert json.loads(run(service, "proxies", "remove", name, "--json").stdout) == {"removed": name}
    assert "status\tactive" in run(service, "proxies", "restore", name).stdout
    assert json.loads(run(service, "proxies", "restore", name, "--json").stdout) == PROXY
    assert service.routes == [
        f"GET /proxies/{name}", f"DELETE /proxies/{name}", f"DELETE /proxies/{name}",
        f"POST /proxies/{name}/restore", f"POST /proxies/{name}/restore",
    ]  # fmt: skip


def test_a_rebuild_is_requested(service: Service) -> None:
    service.script = [(202, {"wanted_at": "2026-11-30T04:19:24.000Z"}, {})] * 2

    assert run(service, "rebuild").stdout == "wanted_at\t2026-11-30T04:19:24.000Z\n"
    assert json.loads(run(service, "rebuild", "--json").stdout)["wanted_at"]
    assert service.routes == ["POST /pool/rebuild"] * 2


@pytest.mark.parametrize("words", ["proxies explain x", "proxies remove x", "proxies restore x", "sources scrape x"])
def test_not_found_is_code_5_and_prints_nothing_to_stdout(service: Service, words: str) -> None:
    service.script = [GONE]

    found = run(service, *words.split())

    assert (found.exit_code, found.stdout) == (Exit.EMPTY, "")
    assert found.stderr == "proxypool: Not found\n"
