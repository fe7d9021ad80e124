"""Strict parsing of addresses, and the table of forbidden networks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool.errors import AddressRefused
from proxypool.network.address import (
    Refusal,
    is_own_endpoint,
    own_endpoints,
    parse_endpoint,
    parse_host,
    parse_http_url,
    parse_port,
    refusal_reason,
)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("169.254.169.254", "link_local"),  # input 1: cloud metadata
        ("127.0.0.1", "loopback"),  # input 2: the Lambda Runtime API
        ("::ffff:169.254.169.254", "link_local"),  # input 7: mapped
        ("fd00:ec2::254", "metadata"),
        ("fe80::1", "link_local"),
        ("fe80::1%eth0", "malformed"),  # zone ids are only valid locally
        ("64:ff9b::a9fe:a9fe", "wrapped"),  # input 8: NAT64 of metadata; is_global says True
        ("64:ff9b:1::1", "wrapped"),
        ("2002:a9fe:a9fe::1", "wrapped"),  # 6to4
        ("2001:0:808:808::1", "wrapped"),  # Teredo
        ("::127.0.0.1", "wrapped"),  # compatible
        ("64:ff9b::808:808", "wrapped"),  # an embedded public address is refused, too
        ("100.64.0.1", "shared"),  # input 12, one by one
        ("192.0.0.8", "reserved"),
        ("198.18.0.1", "benchmark"),
        ("198.19.255.255", "benchmark"),
        ("192.88.99.1", "reserved"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("0.0.0.0", "unspecified"),
        ("10.1.2.3", "private"),  # case 16
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("198.51.100.1", "documentation"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("ff02::1", "multicast"),
        ("8000::1", "reserved"),
        ("1.2.3", "malformed"),
        ("168.63.129.16", "metadata"),  # Azure's, in a public network
        ("100.100.100.200", "metadata"),  # Alibaba's
        ("fd20:ce::254", "metadata"),  # Google's
    ],
)
def test_a_non_public_address_is_refused_with_its_reason(address: str, reason: str) -> None:
    """Inputs 1, 2, 7, 8, 12, 17 and case 16; I17."""
    assert refusal_reason(address) == reason


@pytest.mark.parametrize("address", ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_a_public_address_is_not_refused(address: str) -> None:
    """Addresses next to a forbidden network are permitted."""
    assert refusal_reason(address) == ""


def test_the_loopback_flag_permits_only_loopback() -> None:
    """The local stack's setting permits loopback only."""
    allowed = [
        refusal_reason(address, allow_loopback=True) for address in ("127.9.8.7", "::1", "169.254.169.254", "10.0.0.1")
    ]

    assert allowed == ["", "", "link_local", "private"]


@pytest.mark.parametrize(
    "host",
    [
        "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "0", "1.2.3", "0x7f000001",  # input 9: resolvers accept these
        "１２７.0.0.1", "①②⑦.0.0.1", "١٢٧.0.0.1", "1.2.3.4.", "256.1.1.1",  # input 10
        "127.0.0.1\n", "fe80::1%eth0", "[fe80::1%25eth0]", "[::1", "",  # input 7
        "аpple.com", "a\u200bb.com", "a\u202eb.com", "a%00.com", "h\\@evil.com", "-a.com", "a..com", "a b.com",  # input 14
        "localhost", "x.internal", "printer.local",
    ],
)  # fmt: skip
def test_a_host_that_is_not_canonical_is_refused(host: str) -> None:
    """Inputs 7, 9, 10, 14."""
    with pytest.raises(AddressRefused):
        parse_host(host)


@pytest.mark.parametrize("port", ["0", "65536", "-1", "+80", "8_0", "080", "", "٨٠", "８０", " 80", "80\n", "25"])
def test_a_port_that_is_not_canonical_is_refused(port: str) -> None:
    """Inputs 10 and 11; port 25 is SMTP."""
    with pytest.raises(AddressRefused) as caught:
        parse_port(port)

    assert caught.value.reason in (Refusal.PORT, Refusal.PORT_REFUSED)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("пример.example", "xn--e1afmkfd.example"),
    ],
)
def test_a_non_ascii_name_becomes_an_a_label(name: str, written: str) -> None:
    """Input 14: logs and connections contain xn--…."""
    assert parse_host(name) == written
    assert parse_http_url(f"https://{name}/").host == written


@pytest.mark.parametrize(
    "name",
    [
        "аpple.com",  # Cyrillic а among Latin letters
        "xn--pple-43d.com",  # the same, written as an A-label
        "a​b.com",  # zero width
        "‮a.com",  # bidi
        "xn--a.com",  # no A-label at all
        "ａpple.com",  # fullwidth: IDNA 2008 maps nothing
        "☃.example",  # a symbol
    ],
)
def test_a_name_that_is_invalid_by_idna_2008_or_mixes_scripts_is_refused(name: str) -> None:
    """Input 14."""
    with pytest.raises(AddressRefused) as caught:
        parse_host(name)

    assert caught.value.reason in (Refusal.NAME, Refusal.MALFORMED)


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("judge.example", 80, True),  # the pool's own judge, on any port
        ("127.0.0.1", 9000, True),  # a local judge by its port only: local proxies share its address
        ("127.0.0.1", 9001, False),
        ("abc123.execute-api.eu-west-1.amazonaws.com", 443, True),
        ("abc.lambda-url.us-east-1.on.aws", 443, True),
        ("d111.cloudfront.net", 80, True),
        ("sqs.us-east-1.amazonaws.com", 443, True),
        ("ec2-1-2-3-4.compute-1.amazonaws.com", 8080, False),  # an EC2 instance may be a proxy
    ],
)
def test_an_own_endpoint_of_the_pool_is_recognised(host: str, port: int, expected: bool) -> None:
    """Input 13: no loop through the judge, the API or an AWS endpoint."""
    own = own_endpoints("https://judge.example/", "http://127.0.0.1:9000/", "")

    assert is_own_endpoint(host, port, own) is expected


def test_spellings_of_one_endpoint_are_normalised() -> None:
    """Input 17."""
    assert parse_endpoint("[::ffff:1.2.3.4]", "80") == parse_endpoint("1.2.3.4", "80") == ("1.2.3.4", 80)
    assert parse_host("[2001:DB8:0:0::1]") == "2001:db8::1"
    assert parse_host("PR.Example.NET") == "pr.example.net"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///proc/self/environ", "scheme"),  # input 3
        ("gopher://a.example/", "scheme"),
        ("ftp://a.example/", "scheme"),
        ("data:text/plain,x", "malformed"),
        ("http://a.example/", "scheme"),  # http needs the source's flag
        ("https://user:pass@a.example/", "credentials"),  # input 15
        ("https://h\\@evil.example/", "malformed"),  # input 14: httpx reads host = evil
        ("https://a.example/\r\nX: y", "malformed"),
        ("https://a%2eexample/", "malformed"),
        ("https://аpple.com/", "name"),  # a Cyrillic а among Latin letters
        ("https://a.example/ü", "not_ascii"),
        ("https://a.example:25/", "port_refused"),
        ("https://a.example:065/", "port"),
        ("https://[fe80::1%25eth0]/", "malformed"),
        ("https:///x", "malformed"),
    ],
)
def test_a_url_that_may_not_be_fetched_is_refused(url: str, reason: str) -> None:
    """Inputs 3, 11, 14, 15."""
    with pytest.raises(AddressRefused) as caught:
        parse_http_url(url)

    assert caught.value.reason == reason


def test_a_url_keeps_its_host_header_and_drops_its_fragment() -> None:
    """The Host header contains the port unless it is the scheme's default."""
    url = parse_http_url("HTTPS://A.Example:8443?q=1#part")

    assert (str(url), url.authority) == ("https://a.example:8443/?q=1", "a.example:8443")


@given(st.text(), st.text())
def test_any_text_is_parsed_or_refused(host: str, port: str) -> None:
    """The result is an error or canonical: parsing it again returns the same."""
    try:
        parsed = parse_endpoint(host, port)
    except AddressRefused:
        return
    assert parse_endpoint(parsed[0], str(parsed[1])) == parsed
