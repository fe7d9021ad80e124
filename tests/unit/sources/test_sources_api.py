"""Validation of requests that create or change sources."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from proxypool.config.settings import Settings
from proxypool.errors import Invalid
from proxypool.http.fields import to_json
from proxypool.sources.api import changes_from_request, from_request

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def _fields(body: dict[str, Any], settings: Settings | None = None) -> list[str]:
    with pytest.raises(Invalid) as caught:
        from_request(body, settings=settings or Settings(), now=NOW)
    return [error["field"] for error in caught.value.extra["errors"]]


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/",  # input 1
        "https://169.254.169.254/latest/",
        "http://127.0.0.1:9001/2018-06-01/runtime/invocation/next",  # input 2
        "https://127.0.0.1:9001/x",
        "file:///proc/self/environ",  # input 3
        "http://a.example/",  # http needs allow_http
        "https://u:p@a.example/",  # input 15
        "https://[::ffff:10.0.0.1]/",
    ],
)
def test_a_forbidden_url_is_refused_at_registration(url: str) -> None:
    """Inputs 1, 2, 3, 15."""
    assert _fields({"url": url}) == ["url"]


def test_each_wrong_field_is_named() -> None:
    """A bad request names its fields."""
    assert _fields({"url": "https://a.example/", "inline": "x"}) == ["url"]
    assert _fields({}) == ["url"]
    assert _fields({"path": "/etc/passwd"}) == ["path"]
    assert _fields({"inline": "x", "parser": "nope", "schedule": "daily"}) == ["parser", "schedule"]
    assert _fields({"inline": "x", "colour": "red"}) == ["colour"]


def test_the_local_stack_may_use_loopback_and_files_only() -> None:
    """Only with explicit settings."""
    local = Settings(allow_loopback=True, allow_files=True)

    assert from_request({"url": "http://127.0.0.1:8000/list"}, settings=local, now=NOW).url
    assert from_request({"path": "/tmp/list.txt"}, settings=local, now=NOW).path
    assert _fields({"url": "http://10.0.0.1/list"}, local) == ["url"]
    assert _fields({"url": "http://a.example/list"}, local) == ["url"]


def test_an_edit_clears_the_etag_and_touches_only_what_it_names() -> None:
    """The next scrape reads the whole list."""
    source = from_request({"inline": "x", "tags": ["eu"]}, settings=Settings(), now=NOW)

    changes = changes_from_request({"enabled": False}, source, settings=Settings())

    assert {"enabled": False, "etag": "", "last_modified": "", "body_hash": "", "claim": 0}.items() <= changes.items()
    assert not {"name", "tags", "baseline_rows", "successes"} & changes.keys()


def test_an_answer_does_not_show_the_inline_list() -> None:
    """I19: it may hold passwords."""
    source = from_request({"inline": "u:s3cret@198.51.100.1:80"}, settings=Settings(), now=NOW)

    assert "s3cret" not in str(to_json(source))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"inline": "x", "s3": "uploads/x"}, "url"),
        ({"s3": "s3://anybodys/list.txt"}, "s3"),  # not the deployment's bucket
        ({"s3": "bodies/of-another-source"}, "s3"),
        ({"s3": "uploads/../bodies/x"}, "s3"),
        ({"url": "https://a.example/?{secret}"}, "secret"),  # names no entry
        ({"url": "https://a.example/", "secret": "proxypool/sources/x"}, "secret"),  # used nowhere
        ({"url": "https://a.example/?{secret}", "secret": "judge-key"}, "secret"),  # outside of the pool's own prefix
        ({"url": "https://{secret}.example/", "secret": "proxypool/sources/x"}, "url"),
        ({"url": "https://a.example/", "headers": ["Host: b"]}, "headers"),
        ({"url": "https://a.example/", "headers": ["X: a\r\nY: b"]}, "headers"),  # input 16
        ({"url": "https://a.example/", "headers": ["X: a", "x: b"]}, "headers"),
        ({"url": "https://a.example/", "timeout_seconds": 46}, "timeout_seconds"),
        ({"url": "https://a.example/", "expect_one_network": "yes"}, "expect_one_network"),
        ({"inline": "x", "schedule": "cron(61 * * * *)"}, "schedule"),
        ({"inline": "x", "slots": 0}, "slots"),
        ({"inline": "x", "slots": 10_001}, "slots"),
        ({"inline": "x", "accept": True}, "accept"),  # of a PATCH only
    ],
)  # fmt: skip
def test_a_field_that_may_not_be_so_is_named(body: dict[str, Any], field: str) -> None:
    """Inputs 15 and 16: field-precise refusals at registration."""
    assert _fields(body) == [field]


def test_an_answer_shows_health_and_no_header_value() -> None:
    """GET /sources: the state, the yield, the trend; I19."""
    body = {"url": "https://a.example/?{secret}", "secret": "proxypool/sources/x", "headers": ["X-Key: pasted"]}
    source = from_request(body, settings=Settings(), now=NOW)

    shown = to_json(replace(source, anomaly_streak=3, suspicion="mostly_new", aged_count=4, alive=1, trend=(5, 6)))

    assert (shown["health"], shown["suspicion"], shown["alive_yield"], shown["trend"]) == (
        "quarantined", "mostly_new", 0.25, [5, 6],
    )  # fmt: skip
    assert shown["headers"] == ["X-Key"]
    assert "pasted" not in str(shown)


def test_a_moved_or_accepted_source_loses_its_baseline_and_a_renamed_one_does_not() -> None:
    """The baseline belongs to the list, not to the name of the source."""
    source = from_request({"inline": "x"}, settings=Settings(), now=NOW)

    assert changes_from_request({"inline": "y"}, source, settings=Settings())["successes"] == 0
    assert changes_from_request({"accept": True}, source, settings=Settings())["anomaly_streak"] == 0
    assert "successes" not in changes_from_request({"name": "new"}, source, settings=Settings())
