"""Where a list may lie, and what is sent to get it: URL, S3, file, headers, secrets, private networks."""

from __future__ import annotations

import io
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest
from proxypool import aws, clock
from proxypool.aws.queues import ScrapeMessage
from proxypool.errors import Invalid, SourceError
from proxypool.http.web import read_fields
from proxypool.manage.service import Manager
from proxypool.sources.api import SOURCE_FIELDS
from proxypool.sources.scrape import loaders
from proxypool.sources.scrape.loaders import Places
from proxypool.telemetry import log

from tests.support.scrape import ListServer, Pool, addresses, list_server

SECRET = "proxypool/sources/provider"


@pytest.fixture
def pool(aws_endpoint: str) -> Pool:
    """A pool of its own."""
    aws.client.cache_clear()
    return Pool(source_bucket="lists-of-ours")


@pytest.fixture
def there() -> Iterator[ListServer]:
    """A list behind a URL."""
    with list_server() as server:
        yield server


@pytest.fixture
def manager(pool: Pool) -> Manager:
    """The admin's hands on the same pool."""
    return Manager(settings=pool.settings, sources=pool.sources, proxies=pool.proxies, state=pool.state)


def _secret(text: str) -> None:
    client = aws.client("secretsmanager")
    try:
        client.create_secret(Name=SECRET, SecretString=text)
    except client.exceptions.ResourceExistsException:
        client.put_secret_value(SecretId=SECRET, SecretString=text)


def test_an_uploaded_list_is_scraped(pool: Pool, manager: Manager) -> None:
    """POST /sources, POST /sources/{id}/upload, PUT, scrape: a list of any length, past the API's 64 KB."""
    manager.add_source(read_fields({"id": "big", "s3": "uploads/big"}, SOURCE_FIELDS))
    with pytest.raises(SourceError, match="no_object"):
        pool.scrape("big")
    answer = manager.upload("big")

    request = urllib.request.Request(answer["url"], data=addresses(40).encode(), method=answer["method"])
    urllib.request.urlopen(request, timeout=60).close()

    assert answer["key"] == "uploads/big"
    assert pool.scrape("big").new == 40
    manager.add_source(read_fields({"id": "other", "inline": "8.8.8.8:80"}, SOURCE_FIELDS))
    with pytest.raises(Invalid):
        manager.upload("other")


def test_an_object_of_the_operators_bucket_is_scraped(pool: Pool) -> None:
    """Kind s3."""
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="lists-of-ours")
    s3.put_object(Bucket="lists-of-ours", Key="a/list.txt", Body=addresses(5).encode())
    pool.add(s3="s3://lists-of-ours/a/list.txt")

    assert pool.scrape().new == 5
    assert pool.scrape().skipped == "not_modified"


def test_an_own_list_that_is_too_large_stores_nothing(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 19: inline, file and S3 lists have their own cap."""
    monkeypatch.setattr(loaders, "MAX_OWN_BYTES", 100)
    pool.add(s3="uploads/list")
    aws.client("s3").put_object(Bucket=pool.settings.bodies_bucket, Key="uploads/list", Body=addresses(50).encode())

    with pytest.raises(SourceError, match="too_large"):
        pool.scrape()

    assert not list(pool.proxies.scan())


def test_a_secret_reaches_url_and_headers_and_no_log_row_or_answer(
    pool: Pool, manager: Manager, there: ListServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I19: it is resolved at the scrape; redirects to another origin do not carry it."""
    stream = io.StringIO()
    monkeypatch.setattr(log.registered_handler, "stream", stream)
    _secret(json.dumps({"token": "t0p/secret", "key": "k3y"}))
    there.body = addresses(2).encode()
    pool.add(url=there.url + "?t={secret:token}", headers=["X-Key: {secret:key}", "Accept: text/plain"], secret=SECRET)

    assert pool.scrape().new == 2

    assert (there.asked[0]["path"], there.asked[0]["x-key"], there.asked[0]["accept"]) == (
        "/list?t=t0p%2Fsecret", "k3y", "text/plain",
    )  # fmt: skip
    told = stream.getvalue() + str(pool.source()) + str(manager.list_sources())
    assert "t0p" not in told
    assert "k3y" not in told

    with list_server() as elsewhere:
        there.status, there.headers = 302, {"location": elsewhere.url}
        elsewhere.body = addresses(3).encode()
        assert pool.scrape().new == 1
        assert "x-key" not in elsewhere.asked[0]


def test_a_secret_stands_in_an_inline_gateway_list_too(pool: Pool) -> None:
    """A provider's password is no part of the source's row."""
    _secret("pa55w0rd\n")
    pool.add(inline="http://user:{secret}@gw.example.net:7777", secret=SECRET)

    assert pool.scrape().new == 1

    assert [record.proxy.password for record in pool.proxies.scan()] == ["pa55w0rd"]
    assert "pa55w0rd" not in str(pool.source())


@pytest.mark.parametrize("text", ["two\r\nlines: x", "{}"], ids=["a line break", "no such member"])
def test_a_secret_that_cannot_be_used_is_a_failure_of_the_source(pool: Pool, there: ListServer, text: str) -> None:
    """Inputs 16 and 88: no header is injected, and nothing is sent without its secret."""
    _secret(text)
    pool.add(url=there.url, headers=["X-Key: {secret}" if "lines" in text else "X-Key: {secret:key}"], secret=SECRET)

    with pytest.raises(SourceError, match="secret_unreadable"):
        pool.scrape()

    assert there.asked == []


def test_a_missing_secret_is_a_failure_of_the_source(pool: Pool, there: ListServer) -> None:
    """Input 88."""
    pool.add(url=there.url + "?{secret}", secret="proxypool/sources/nobody")

    with pytest.raises(SourceError, match="secret_unreadable"):
        pool.scrape()


def test_a_server_that_says_unchanged_to_nobodys_question_is_a_failure(pool: Pool, there: ListServer) -> None:
    """Input 29: a 304 without a validator would empty the source unsaid."""
    there.status = 304
    pool.add(url=there.url)

    with pytest.raises(SourceError, match="http_304"):
        pool.scrape()


def test_private_proxies_are_for_sources_that_may_have_them_and_metadata_for_none(pool: Pool) -> None:
    """Case 16: 10/8 is allowed only for a source flagged allow_private, metadata never."""
    lines = "10.1.2.3:80\n192.168.0.9:80\n169.254.169.254:80\n100.64.0.1:80\n"
    pool.add("strict", inline=lines)
    pool.add("private", inline=lines, allow_private=True)

    strict, private = pool.scrape("strict"), pool.scrape("private")

    assert (strict.new, private.new) == (0, 2)
    assert dict(private.rejected) == {"link_local": 1, "shared": 1}
    assert {record.allow_private for record in pool.proxies.scan()} == {True}


def test_a_url_in_a_private_network_is_for_sources_that_say_so(pool: Pool, there: ListServer) -> None:
    """Inputs 1 and 2: never link-local, never the metadata service."""
    with pytest.raises(Invalid):
        pool.add(url="https://10.0.0.7/list")
    with pytest.raises(Invalid):
        pool.add(url="https://169.254.169.254/list", allow_private=True)
    pool.add(url="https://10.0.0.7/list", allow_private=True)

    networks = Places(settings=pool.settings).networks_of(pool.source())

    assert not [network for network, _ in networks if network in ("10.0.0.0/8", "192.168.0.0/16")]
    assert [network for network, _ in networks if network == "169.254.0.0/16"]


def test_a_part_whose_copy_is_gone_fails_and_is_tried_again(pool: Pool) -> None:
    """I13: the message ends in the dead-letter queue with its reason, not in silence."""
    pool.add(inline=addresses(3))
    pool.sources.update("list", continues="bodies/gone#5")

    with pytest.raises(SourceError, match="no_object"):
        pool.scraper.scrape(ScrapeMessage(source_id="list", key="bodies/gone", offset=5), clock.now())


def test_raw_text_of_a_list_reaches_no_log(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 26: ANSI escapes, NULs and nonsense are counted, never echoed."""
    stream = io.StringIO()
    monkeypatch.setattr(log.registered_handler, "stream", stream)
    scraper = replace(pool.scraper)
    pool.add(inline="\x1b[31mEVIL\x00 row\n8.8.8.8:80\n")

    scraped = scraper.scrape(ScrapeMessage(source_id="list"), clock.now())
    log.info("scraped", **scraped.counts())

    assert (scraped.new, sum(scraped.rejected.values())) == (1, 1)
    assert "EVIL" not in stream.getvalue() + str(pool.source().rejected)
