"""Sources from a file to the API: sources.example.toml itself is read, and each of its sources is one that the API takes."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from proxypool.config.settings import Settings
from proxypool.proxies.proxy import Protocol
from proxypool.sources.api import LOCATIONS, from_request
from proxypool.sources.formats import parse
from proxypool_client import source_files
from proxypool_client.errors import SourceFileError

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "sources.example.toml"
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def test_the_example_has_every_kind_and_no_public_list_enabled() -> None:
    """Each source is taken by the API as it stands."""
    entries = source_files.read(EXAMPLE)

    made = [from_request(e.body, settings=Settings(allow_loopback=True, allow_files=True), now=NOW) for e in entries]

    assert {place for source in made for place in LOCATIONS if getattr(source, place)} == set(LOCATIONS)
    assert not [source for source in made if source.url and source.enabled]
    assert not [source for source in made if source.secret and source.enabled]


def test_the_examples_own_lists_hold_proxies() -> None:
    """`make up SOURCES=sources.example.toml` has something to scrape, all of it on loopback."""
    paths = [
        entry.upload or Path(entry.body["path"])
        for entry in source_files.read(EXAMPLE)
        if entry.upload or "path" in entry.body
    ] + [EXAMPLE.parent / "examples/lists/served.csv"]

    for path in paths:
        parsed = parse("auto", path.read_bytes(), default_protocol=Protocol.HTTP)
        assert parsed.proxies
        assert not parsed.rejected
        assert all(proxy.host.startswith("127.") for proxy in parsed.proxies)


def _api(answers: dict[str, Any]) -> tuple[list[tuple[str, str, Any]], source_files.Request]:
    asked: list[tuple[str, str, Any]] = []

    def ask(method: str, path: str, body: Any) -> Any:
        asked.append((method, path, body))
        return answers[f"{method} {path}"]

    return asked, ask


def test_a_source_that_is_there_is_changed_and_a_disabled_one_is_not_scraped() -> None:
    """The same file twice adds nothing."""
    asked, ask = _api({
        "GET /sources": {"sources": [{"id": "a"}]},
        "PATCH /sources/a": {"id": "a", "enabled": True},
        "POST /sources": {"id": "b", "enabled": False},
        "POST /sources/a/scrape": {},
    })  # fmt: skip

    list(
        source_files.send(
            [source_files.Entry({"id": "a", "inline": "x"}), source_files.Entry({"id": "b", "inline": "y"})],
            ask,
            scrape=True,
        )
    )

    assert asked[1:] == [
        ("PATCH", "/sources/a", {"inline": "x"}),
        ("POST", "/sources/a/scrape", None),
        ("POST", "/sources", {"id": "b", "inline": "y"}),
    ]


def test_a_short_file_is_sent_and_a_long_one_uploaded(tmp_path: Path) -> None:
    """The API takes 64 KB in one request."""
    short, long = tmp_path / "short.txt", tmp_path / "long.txt"
    short.write_text("8.8.8.8:80\n")
    long.write_text("8.8.8.8:80\n" * 5_000)

    assert source_files.from_location(str(short)) == source_files.Entry({"inline": "8.8.8.8:80\n"})
    entry = source_files.from_location(str(long))
    assert entry.upload == long
    assert entry.body["s3"] == f"uploads/{entry.body['id']}"
    assert source_files.from_location("https://a.example/") == source_files.Entry({"url": "https://a.example/"})


@pytest.mark.parametrize("text", ["[[source", "x = 1", "source = []"])
def test_a_file_that_is_no_list_of_sources_is_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "s.toml"
    file.write_text(text)

    with pytest.raises(SourceFileError, match=r"s\.toml"):
        source_files.read(file)
    with pytest.raises(SourceFileError, match="neither"):
        source_files.from_location(str(tmp_path / "nothing"))


def test_a_trend_is_a_line_of_blocks() -> None:
    """`sources list`."""
    assert source_files.sparkline([500, 510, 505, 0]) == "███▁"
    assert source_files.sparkline([]) == ""
    assert source_files.sparkline([0, 0]) == "▁▁"


def test_every_uncommented_field_of_the_example_is_one_of_the_api() -> None:
    """Except `upload`, which the command reads."""
    sources = tomllib.loads(EXAMPLE.read_text())["source"]

    assert {name for source in sources for name in source} >= {"path", "inline", "s3", "url", "secret", "headers"}
