"""Loading lists: URLs, S3, files, headers, secrets, private networks."""

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
from proxypool.sources.scrape.loaders import ListLoader
from proxypool.telemetry import log

from tests.support.scrape import ListServer, Pool, addresses, list_server

SECRET = "proxypool/sources/provider"


@pytest.fixture
def pool(aws_endpoint: str) -> Pool:
    """A new pool."""
    aws.client.cache_clear()
    return Pool(source_bucket="operator-lists")


@pytest.fixture
def server() -> Iterator[ListServer]:
    """An HTTP server with a list."""
    with list_server() as running:
        yield running


@pytest.fixture
def manager(pool: Pool) -> Manager:
    """The admin service of the same pool."""
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
    s3.create_bucket(Bucket="operator-lists")
    s3.put_object(Bucket="operator-lists", Key="a/list.txt", Body=addresses(5).encode())
    pool.add(s3="s3://operator-lists/a/list.txt")

    assert pool.scrape().new == 5
    assert pool.scrape().skipped == "not_modified"


def test_a_list_over_the_size_limit_stores_nothing(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 19: files and S3 objects have a size limit, too."""
    monkeypatch.setattr(loaders, "MAX_OBJECT_BYTES", 100)
    pool.add(s3="uploads/list")
    aws.client("s3").put_object(Bucket=pool.settings.bodies_bucket, Key="uploads/list", Body=addresses(50).encode())

    with pytest.raises(SourceError, match="too_large"):
        pool.scrape()

    assert not list(pool.proxies.scan())


def test_a_secret_is_sent_in_url_and_headers_and_is_in_no_log_row_or_response(
    pool: Pool, manager: Manager, server: ListServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I19: it is filled in at the scrape, and not sent after a redirect to another origin."""
    stream = io.StringIO()
    monkeypatch.setattr(log.registered_handler, "stream", stream)
    _secret(json.dumps({"token": "t0p/secret", "key": "k3y"}))
    server.body = addresses(2).encode()
    pool.add(url=server.url + "?t={secret:token}", headers=["X-Key: {secret:key}", "Accept: text/plain"], secret=SECRET)

    assert pool.scrape().new == 2

    assert (server.asked[0]["path"], server.asked[0]["x-key"], server.asked[0]["accept"]) == (
        "/list?t=t0p%2Fsecret", "k3y", "text/plain",
    )  # fmt: skip
    output = stream.getvalue() + str(pool.source()) + str(manager.list_sources())
    assert "t0p" not in output
    assert "k3y" not in output

    with list_server() as other:
        server.status, server.headers = 302, {"location": other.url}
        other.body = addresses(3).encode()
        assert pool.scrape().new == 1
        assert "x-key" not in other.asked[0]


def test_a_secret_can_be_part_of_an_inline_list(pool: Pool) -> None:
    """The password of a provider is not stored in the row of the source."""
    _secret("pa55w0rd\n")
    pool.add(inline="http://user:{secret}@gw.example.net:7777", secret=SECRET)

    assert pool.scrape().new == 1

    assert [record.proxy.password for record in pool.proxies.scan()] == ["pa55w0rd"]
    assert "pa55w0rd" not in str(pool.source())


@pytest.mark.parametrize("text", ["two\r\nlines: x", "{}"], ids=["a line break", "no such member"])
def test_an_unusable_secret_is_a_failure_of_the_source(pool: Pool, server: ListServer, text: str) -> None:
    """Inputs 16 and 88: no header is injected, and no request is sent without its secret."""
    _secret(text)
    pool.add(url=server.url, headers=["X-Key: {secret}" if "lines" in text else "X-Key: {secret:key}"], secret=SECRET)

    with pytest.raises(SourceError, match="secret_unreadable"):
        pool.scrape()

    assert server.asked == []


def test_a_missing_secret_is_a_failure_of_the_source(pool: Pool, server: ListServer) -> None:
    """Input 88."""
    pool.add(url=server.url + "?{secret}", secret="proxypool/sources/missing")

    with pytest.raises(SourceError, match="secret_unreadable"):
        pool.scrape()


def test_an_unsolicited_304_is_a_failure(pool: Pool, server: ListServer) -> None:
    """Input 29: accepting a 304 without validators would hide that the list is never read."""
    server.status = 304
    pool.add(url=server.url)

    with pytest.raises(SourceError, match="http_304"):
        pool.scrape()


def test_private_proxies_need_allow_private_and_metadata_addresses_are_always_refused(pool: Pool) -> None:
    """Case 16: 10/8 is allowed only for a source flagged allow_private, metadata never."""
    lines = "10.1.2.3:80\n192.168.0.9:80\n169.254.169.254:80\n100.64.0.1:80\n"
    pool.add("strict", inline=lines)
    pool.add("private", inline=lines, allow_private=True)

    strict, private = pool.scrape("strict"), pool.scrape("private")

    assert (strict.new, private.new) == (0, 2)
    assert dict(private.rejected) == {"link_local": 1, "shared": 1}
    assert {record.allow_private for record in pool.proxies.scan()} == {True}


def test_a_url_in_a_private_network_needs_allow_private(pool: Pool, server: ListServer) -> None:
    """Inputs 1 and 2: never link-local, never the metadata service."""
    with pytest.raises(Invalid):
        pool.add(url="https://10.0.0.7/list")
    with pytest.raises(Invalid):
        pool.add(url="https://169.254.169.254/list", allow_private=True)
    pool.add(url="https://10.0.0.7/list", allow_private=True)

    networks = ListLoader(settings=pool.settings).forbidden_networks(pool.source())

    assert not [network for network, _ in networks if network in ("10.0.0.0/8", "192.168.0.0/16")]
    assert [network for network, _ in networks if network == "169.254.0.0/16"]


def test_a_part_whose_copy_is_missing_fails_and_is_retried(pool: Pool) -> None:
    """I13: the message is moved to the dead-letter queue with its reason."""
    pool.add(inline=addresses(3))
    pool.sources.update("list", continues="bodies/gone#5")

    with pytest.raises(SourceError, match="no_object"):
        pool.scraper.scrape(ScrapeMessage(source_id="list", key="bodies/gone", offset=5), clock.now())


def test_raw_text_of_a_list_is_not_logged(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 26: ANSI escapes, NULs and malformed rows are counted, never logged."""
    stream = io.StringIO()
    monkeypatch.setattr(log.registered_handler, "stream", stream)
    scraper = replace(pool.scraper)
    pool.add(inline="\x1b[31mEVIL\x00 row\n8.8.8.8:80\n")

    result = scraper.scrape(ScrapeMessage(source_id="list"), clock.now())
    log.info("scraped", **result.counts())

    assert (result.new, sum(result.rejected.values())) == (1, 1)
    assert "EVIL" not in stream.getvalue() + str(pool.source().rejected)
