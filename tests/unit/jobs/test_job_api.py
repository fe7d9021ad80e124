"""Validation of POST /jobs."""

from __future__ import annotations

from typing import Any

import pytest
from proxypool.aws.state import StateTable
from proxypool.config.settings import Settings
from proxypool.errors import Invalid
from proxypool.jobs.api import read_jobs
from proxypool.jobs.fetch.domains import Domain, Domains
from proxypool.jobs.job import Job, JobRequest


class FixedDomains(Domains):
    """Domains without a table."""

    def _cached(self) -> dict[str, Domain]:
        return {
            "shop.example": Domain(name="shop.example"),
            "old.example": Domain(name="old.example", allow_http=True),
        }


DOMAINS = FixedDomains(StateTable("unused"))


def read(body: dict[str, Any], owner: str = "ann") -> list[Job]:
    return read_jobs(body, owner, settings=Settings(), domains=DOMAINS)


def invalid_fields(body: dict[str, Any]) -> set[str]:
    """The fields that are reported."""
    with pytest.raises(Invalid) as raised:
        read(body)
    return {error["field"] for error in raised.value.extra["errors"]}


def test_the_same_request_is_the_same_job_in_any_spelling() -> None:
    """I12: the id is a digest of the canonical request."""
    first = read({"url": "https://shop.example/a", "lease": {"country": "de", "https": True}})[0]
    second = read({"lease": {"https": True, "country": "de"}, "method": "GET", "url": "https://shop.example/a"})[0]
    other = read({"url": "https://shop.example/b", "lease": {"country": "de", "https": True}})[0]

    assert first == second
    assert first.id != other.id
    assert read({"url": "https://shop.example/a", "job_id": "mine-1"})[0].id == "mine-1"


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("https://Bücher.Shop.example/a?b=1#c", "https://xn--bcher-kva.shop.example/a?b=1"),
        ("HTTPS://SHOP.example:443", "https://shop.example/"),
        ("https://shop.example:8443/%C3%A9", "https://shop.example:8443/%C3%A9"),
    ],
    ids=["international", "upper case and default port", "port"],
)
def test_a_job_stores_its_url_in_canonical_form(url: str, stored: str) -> None:
    """B1: the validated host is the host that is fetched; two spellings of a URL are one job."""
    first, second = read({"url": url})[0], read({"url": stored})[0]

    assert first.request.url == stored
    assert first.request.host in stored
    assert first.id == second.id


def test_an_id_of_two_owners_is_two_jobs() -> None:
    ann, bob = (read({"url": "https://shop.example/", "job_id": "x"}, owner)[0] for owner in ("ann", "bob"))

    assert ann.key != bob.key


def test_a_stored_request_is_parsed_again() -> None:
    """Input 82: members of a newer version are ignored."""
    body = {
        "url": "https://shop.example/",
        "batch": "b",
        "crawl": {"depth": 2, "include": ["/p/"]},
        "must_contain": ["x"],
    }
    request = read(body)[0].request

    assert JobRequest.parse(request.text()) == request
    assert JobRequest.parse(request.text()[:-1] + ',"later":1}') == request


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://other.example/", "not on the allow-list"),
        ("http://shop.example/", "plain http"),
        ("https://169.254.169.254/latest/meta-data/", "cloud metadata"),
        ("https://127.0.0.1/", "loopback"),
        ("https://10.1.2.3/", "private"),
        ("https://localhost/", "a single label"),
        ("https://db.internal/", "a name of a network"),
        ("https://printer.local/", "a name of a network"),
        ("https://2130706433/", "a number is not a name"),
        ("https://user:pw@shop.example/", "credentials in the URL"),
        ("https://h\\@shop.example/", "a backslash"),
        ("ftp://shop.example/", "another scheme"),
        ("file:///etc/passwd", "a file"),
        ("https://shop.example:25/", "mail"),
    ],
)
def test_a_forbidden_target_is_refused(url: str, reason: str) -> None:
    """Inputs 47 and 3, I17."""
    assert invalid_fields({"url": url}) == {"url"}, reason


def test_secrets_over_plain_http_need_a_flag() -> None:
    """Input 49."""
    body = {"url": "http://old.example/", "headers": {"Authorization": "Bearer {token:a}"}}

    assert invalid_fields(body) == {"headers"}
    assert read(body | {"allow_plaintext_secrets": True})
    assert read({"url": "http://old.example/", "headers": {"Accept": "text/html"}})


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"url"}),
        ({"url": "https://shop.example/", "method": "TRACE"}, {"method"}),
        ({"url": "https://shop.example/", "max_attempts": 99}, {"max_attempts"}),
        ({"url": "https://shop.example/", "max_attempts": True}, {"max_attempts"}),
        ({"url": "https://shop.example/", "colour": 1}, {"colour"}),
        ({"url": "https://shop.example/", "transform": {"name": "xslt"}}, {"transform.name"}),
        ({"url": "https://shop.example/", "transform": {"name": "json", "query": "["}}, {"transform.query"}),
        (
            {"url": "https://shop.example/", "lease": {"country": "Germany", "count": 5}},
            {"lease.country", "lease.count"},
        ),
        ({"url": "https://shop.example/", "headers": {"Host": "x"}}, {"headers.Host"}),
        ({"url": "https://shop.example/", "headers": {"Proxy-Authorization": "x"}}, {"headers.Proxy-Authorization"}),
        ({"url": "https://shop.example/", "headers": {"X-A": "a\r\nX-B: b"}}, {"headers.X-A"}),
        ({"url": "https://shop.example/", "crawl": {"depth": 99}, "batch": "b"}, {"crawl.depth"}),
        ({"url": "https://shop.example/", "crawl": {}}, {"batch"}),
        ({"url": "https://shop.example/", "session_id": "a b"}, {"session_id"}),
        ({"url": "https://shop.example/", "owner": "bob"}, {"owner"}),
        ({"url": "https://shop.example/", "body": "x" * 200_001}, {"body"}),
        ({"url": "https://shop.example/", "body": "\u00e9" * 50_000}, {"body"}),
        ({"jobs": []}, {"jobs"}),
        ({"jobs": [{"url": "https://shop.example/"}, {"url": "x"}, 3]}, {"jobs[1].url", "jobs[2]"}),
    ],
)
def test_an_invalid_field_is_named(body: dict[str, Any], fields: set[str]) -> None:
    """Inputs 55, 61 and 75 (a row holds 400 KB, the result included), and fields of jobs."""
    assert invalid_fields(body) == fields


def test_a_domain_allows_its_subdomains() -> None:
    assert DOMAINS.find("www.shop.example") == Domain(name="shop.example")
    assert DOMAINS.find("notshop.example") is None
    assert DOMAINS.find("example") is None
