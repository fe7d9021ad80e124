"""Sources from a file to the API: sources.example.toml itself is read, and each of its sources is one that the API takes."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from proxypool.config.settings import Settings
from proxypool.http.fields import to_json
from proxypool.proxies.proxy import Protocol
from proxypool.sources.api import LOCATIONS, from_request
from proxypool.sources.formats import parse
from proxypool_client import source_files
from proxypool_client.errors import ApiError, LeaseLost, SourceFileError
from proxypool_client.source_files import Entry

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "sources.example.toml"
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def test_the_example_has_every_kind_and_no_public_list_enabled() -> None:
    """Each source is taken by the API as it stands."""
    entries = source_files.read(EXAMPLE).entries

    bodies = [e.body | ({"inline": "x"} if e.serve else {}) for e in entries]
    made = [from_request(body, settings=Settings(allow_loopback=True, allow_files=True), now=NOW) for body in bodies]

    assert {place for source in made for place in LOCATIONS if getattr(source, place)} == set(LOCATIONS)
    assert not [source for source in made if source.url and source.enabled]
    assert not [source for source in made if source.secret and source.enabled]


def test_the_examples_own_lists_hold_proxies() -> None:
    """`make up SOURCES=sources.example.toml` has something to scrape, all of it on loopback."""
    paths = [
        entry.upload or Path(entry.body["path"])
        for entry in source_files.read(EXAMPLE).entries
        if entry.upload or "path" in entry.body
    ] + [EXAMPLE.parent / "examples/lists/served.csv"]

    for path in paths:
        parsed = parse("auto", path.read_bytes(), default_protocol=Protocol.HTTP)
        assert parsed.proxies
        assert not parsed.rejected
        assert all(proxy.host.startswith("127.") for proxy in parsed.proxies)


class FakeApi:
    """Responses by request; `requests` are those that were made."""

    def __init__(self, responses: dict[str, Any]) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self._responses = responses

    def __call__(self, method: str, path: str, body: Any) -> Any:
        self.requests.append((method, path, body))
        response = self._responses[f"{method} {path}"]
        if isinstance(response, Exception):
            raise response
        return response


def shown(**values: Any) -> dict[str, Any]:
    """A source as the API returns it, by default one with a URL that was scraped without an error."""
    source = from_request({"id": "a", "url": "https://a.example/"}, settings=Settings(), now=NOW)
    return {**to_json(source), "last_success_at": "2026-11-30T00:00:00Z", **values}


def test_an_existing_source_is_updated_and_a_disabled_one_is_not_scraped() -> None:
    """Importing a file twice adds nothing."""
    api = FakeApi({
        "GET /sources": {"sources": [shown(url=None, inline_bytes=1)]},
        "PATCH /sources/a": shown(url=None),
        "POST /sources": {"id": "b", "enabled": False},
        "POST /sources/a/scrape": {},
    })  # fmt: skip
    entries = [Entry({"id": "a", "inline": "x"}), Entry({"id": "b", "inline": "y"})]

    sent = list(source_files.send(entries, api, scrape=True))

    assert api.requests[1:] == [
        ("PATCH", "/sources/a", {"inline": "x"}),
        ("POST", "/sources/a/scrape", None),
        ("POST", "/sources", {"id": "b", "inline": "y"}),
    ]
    assert [result.is_changed for result in sent] == [False, False]


@pytest.mark.parametrize(
    ("current", "body", "expected"),
    [
        ({}, {"tags": ["b", "a"]}, {"tags": ["b", "a"]}),
        ({"tags": ["a", "b"]}, {"tags": ["b", "a"]}, {}),  # the API sorts them
        ({"url": None, "inline_bytes": 3}, {}, {"url": "https://a.example/", "inline": ""}),  # it had another location
        ({}, {"url": "https://b.example/"}, {"url": "https://b.example/"}),
        (
            {"headers": ["Accept"]},
            {"headers": ["Accept: text/plain"]},
            {"headers": ["Accept: text/plain"]},
        ),  # not returned
        ({}, {"schedule": "", "secret": "", "enabled": True}, {}),
    ],
)
def test_a_change_has_only_the_fields_that_differ(
    current: dict[str, Any], body: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert source_files.changed_fields(shown(**current), {"id": "a", "url": "https://a.example/", **body}) == expected


@pytest.mark.parametrize(
    ("current", "is_scraped"),
    [({}, False), ({"last_error": "HTTP 500"}, True), ({"last_success_at": None}, True), ({"kind": "mobile"}, True)],
)
def test_an_unchanged_url_is_scraped_at_its_scheduled_time(current: dict[str, Any], is_scraped: bool) -> None:
    api = FakeApi({
        "GET /sources": {"sources": [shown(**current)]},
        "PATCH /sources/a": shown(**current),
        "POST /sources/a/scrape": {},
    })  # fmt: skip

    list(source_files.send([Entry({"id": "a", "url": "https://a.example/", "kind": "unknown"})], api, scrape=True))

    assert (("POST", "/sources/a/scrape", None) in api.requests) is is_scraped


def test_an_error_of_the_api_names_the_source_and_has_its_fields() -> None:
    problem = {"title": "Invalid request", "errors": [{"field": "parser", "message": "unknown"}]}
    api = FakeApi({"GET /sources": {"sources": []}, "POST /sources": ApiError(422, problem)})

    with pytest.raises(ApiError, match="source mine: Invalid request") as raised:
        list(source_files.send([Entry({"id": "m", "name": "mine", "parser": "no"})], api, scrape=True))

    assert raised.value.problem["errors"] == problem["errors"]


def test_removed_sources_are_returned_and_missing_ones_skipped() -> None:
    api = FakeApi({"GET /sources/a": {"id": "a"}, "DELETE /sources/a": None, "GET /sources/b": LeaseLost(404, {})})

    assert list(source_files.remove(["a", "b"], api)) == [{"id": "a"}]


def test_a_source_without_an_id_gets_the_same_one_at_each_import(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        '[[source]]\nname = "n"\ninline = "1.2.3.4:80"\n[[source]]\nupload = "list.txt"\ns3 = "uploads/x"\n'
    )
    first = source_files.read(file).entries
    file.write_text('[[source]]\nname = "n"\ninline = "5.6.7.8:80"\n')

    (again,) = source_files.read(file).entries

    assert again.body["id"] == first[0].body["id"] != first[1].body["id"]
    assert first[1].upload == tmp_path / "list.txt"


def test_two_sources_of_one_name_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('[[source]]\nname = "n"\ninline = "x"\n[[source]]\nname = "n"\ninline = "y"\n')

    with pytest.raises(SourceFileError, match="same id, name or location"):
        source_files.read(file)


def test_a_file_to_serve_is_sent_as_text_to_a_pool_that_does_not_serve_it(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("ip,port\n")
    (tmp_path / "s.toml").write_text('[[source]]\nid = "a"\nserve = "list.csv"\n')
    api = FakeApi({"GET /sources": {"sources": []}, "POST /sources": {"id": "a", "enabled": True}})

    list(source_files.send(source_files.read(tmp_path / "s.toml").entries, api, scrape=False))

    assert api.requests[-1] == ("POST", "/sources", {"id": "a", "inline": "ip,port\n"})


def test_a_short_file_is_sent_and_a_long_one_uploaded(tmp_path: Path) -> None:
    """The API takes 64 KB in one request."""
    short, long = tmp_path / "short.txt", tmp_path / "long.txt"
    short.write_text("8.8.8.8:80\n")
    long.write_text("8.8.8.8:80\n" * 5_000)

    assert source_files.entry_from_location(str(short)) == Entry({"inline": "8.8.8.8:80\n"})
    entry = source_files.entry_from_location(str(long))
    assert entry.upload == long
    assert entry.body["s3"] == f"uploads/{entry.body['id']}"
    assert source_files.entry_from_location("https://a.example/") == Entry({"url": "https://a.example/"})


@pytest.mark.parametrize("text", ["[[source", "x = 1", "source = []"])
def test_an_invalid_file_is_an_error_with_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "s.toml"
    file.write_text(text)

    with pytest.raises(SourceFileError, match=r"s\.toml"):
        source_files.read(file)
    with pytest.raises(SourceFileError, match="neither"):
        source_files.entry_from_location(str(tmp_path / "nothing"))


def test_a_trend_is_a_line_of_blocks() -> None:
    """`sources list`."""
    assert source_files.sparkline([500, 510, 505, 0]) == "███▁"
    assert source_files.sparkline([]) == ""
    assert source_files.sparkline([0, 0]) == "▁▁"


def test_every_uncommented_field_of_the_example_is_one_of_the_api() -> None:
    """Except `upload`, which the command reads."""
    sources = tomllib.loads(EXAMPLE.read_text())["source"]

    assert {name for source in sources for name in source} >= {"path", "inline", "s3", "url", "secret", "headers"}
