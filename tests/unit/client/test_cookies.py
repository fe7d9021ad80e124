"""Cookies by RFC 6265: which are accepted, to which requests they are sent, and their file formats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool_client.cookies import (
    MAX_PER_DOMAIN,
    Cookie,
    Jar,
    default_path,
    domain_matches,
    from_json,
    from_netscape,
    parse_set_cookie,
    path_matches,
    to_json,
    to_netscape,
)

NOW = 1_796_000_000.0
SHOP = "https://www.shop.example/cart/items"


def a_jar(*set_cookies: str, url: str = SHOP) -> Jar:
    jar = Jar()
    jar.update(set_cookies, url, now=NOW)
    return jar


@pytest.mark.parametrize(
    ("text", "url", "why"),
    [
        ("a=1; Domain=com", SHOP, "a public suffix"),
        ("a=1; Domain=co.uk", "https://shop.co.uk/", "a public suffix of two labels"),
        ("a=1; Domain=github.io", "https://me.github.io/", "a private public suffix"),
        ("a=1; Domain=other.example", SHOP, "another domain"),
        ("a=1; Domain=ww.shop.example", SHOP, "a sibling"),
        ("a=1; Domain=hop.example", SHOP, "the end of a label is no subdomain"),
        ("a=1; Secure", "http://www.shop.example/", "Secure from plain http"),
        ("__Host-a=1; Secure; Path=/; Domain=shop.example", SHOP, "__Host- with a domain"),
        ("__Secure-a=1", SHOP, "__Secure- without Secure"),
        ("a\x07=1", SHOP, "a control character"),
        ("=1", SHOP, "no name"),
        ("a=" + "x" * 5_000, SHOP, "over 4 KB"),
    ],
)
def test_a_cookie_that_a_browser_would_reject_is_ignored(text: str, url: str, why: str) -> None:
    """Input 67, I15: a site cannot set cookies for another site."""
    assert parse_set_cookie(text, url, now=NOW) is None, why


@pytest.mark.parametrize(
    ("text", "url", "goes"),
    [
        ("a=1", "https://www.shop.example/cart/", True),
        ("a=1", "https://shop.example/cart/", False),  # no Domain: for that host alone
        ("a=1", "https://www.shop.example/", False),  # no Path: for the folder of the page
        ("a=1; Path=/", "https://www.shop.example/", True),
        ("a=1; Path=/ca", "https://www.shop.example/cart", False),  # a path is matched by whole segments
        ("a=1; Domain=shop.example; Path=/", "https://api.shop.example/", True),
        ("a=1; Domain=.shop.example; Path=/", "https://shop.example/", True),  # a leading dot means nothing
        ("a=1; Domain=shop.example; Path=/", "https://myshop.example/", False),
        ("a=1; Secure; Path=/", "http://www.shop.example/", False),
        ("a=1; Path=/", "https://evil.example/", False),
    ],
)
def test_a_cookie_is_sent_to_matching_requests_only(text: str, url: str, goes: bool) -> None:
    """I15: domain, path and Secure decide."""
    assert a_jar(text).header(url, now=NOW) == ("a=1" if goes else "")


def test_a_cookie_that_expires_at_the_epoch_is_removed() -> None:
    jar = a_jar("a=1; Path=/", "b=2; Path=/")

    jar.update(["a=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], SHOP, now=NOW)

    assert jar.header(SHOP, now=NOW) == "b=2"


@pytest.mark.parametrize(
    ("attributes", "lasts"),
    [
        ("Max-Age=60", 60),
        ("Max-Age=0", None),
        ("Max-Age=-5", None),
        ("Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT", 60),  # Max-Age has precedence
        ("Expires=Wed, 30-Nov-2033 09:00:00 GMT", 1_000),
    ],
)
def test_a_cookie_expires_by_its_attributes(attributes: str, lasts: int | None) -> None:
    jar = a_jar(f"a=1; Path=/; {attributes}")

    assert bool(jar.header(SHOP, now=NOW + 1)) == (lasts is not None)
    if lasts == 60:
        assert jar.header(SHOP, now=NOW + 60) == ""


def test_the_oldest_of_too_many_cookies_are_dropped() -> None:
    """Input 54: 50 per domain, 4 KB each, 256 KB in total."""
    jar = a_jar(*(f"c{number}=x; Path=/" for number in range(5_000)))

    names = [cookie.name for cookie in jar.live(now=NOW)]

    assert names == [f"c{number}" for number in range(5_000 - MAX_PER_DOMAIN, 5_000)]


def test_the_changes_of_a_second_save_are_applied_to_the_first() -> None:
    """Input 69, I16: the cookies of both workers are stored, and a removed cookie stays removed."""
    stored = [Cookie(name="a", value="1", domain="shop.example"), Cookie(name="b", value="1", domain="shop.example")]
    mine = Jar.from_cookies(stored)
    mine.update(["c=mine; Path=/", "b=; Max-Age=0; Path=/"], "https://shop.example/", now=NOW)
    theirs = [*stored, Cookie(name="d", value="theirs", domain="shop.example")]

    merged = mine.rebased(theirs, now=NOW)

    assert {one.name: one.value for one in merged.live(now=NOW)} == {"a": "1", "c": "mine", "d": "theirs"}


def test_a_stored_cookie_for_a_public_suffix_is_never_sent() -> None:
    """Input 67: also if it was stored through the API."""
    jar = Jar.from_cookies([Cookie(name="a", value="1", domain="com", host_only=False)])

    assert jar.header("https://shop.com/", now=NOW) == ""


def test_cookies_are_converted_from_and_to_netscape_files_and_json() -> None:
    cookies = [
        Cookie(name="a", value="1", domain="shop.example", expires_at=1_900_000_000, secure=True, http_only=True),
        Cookie(name="b", value="x=y", domain="shop.example", host_only=False, path="/cart"),
    ]
    exported = [
        {"name": "a", "value": "1", "domain": "shop.example", "path": "/", "expirationDate": 1_900_000_000.5,
         "secure": True, "httpOnly": True, "hostOnly": True, "sameSite": "lax", "session": False, "storeId": "0"},
        {"name": "b", "value": "x=y", "domain": ".shop.example", "path": "/cart", "hostOnly": False},
    ]  # fmt: skip

    assert from_netscape(to_netscape(cookies)) == cookies
    assert from_json(exported) == cookies
    assert from_json(to_json(cookies)) == cookies


def test_an_invalid_line_of_a_netscape_file_is_skipped() -> None:
    assert from_netscape("# comment\n\nshop.example\tFALSE\nshop.example\tFALSE\t/\tFALSE\tsoon\ta\t1\n") == []


@given(st.text(max_size=200), st.sampled_from([SHOP, "http://10.0.0.1/", "https://[2001:db8::1]/a"]))
def test_no_set_cookie_header_raises(text: str, url: str) -> None:
    """Any text is a cookie of that host or none."""
    cookie = parse_set_cookie(text, url, now=NOW)

    assert cookie is None or cookie.is_expired(NOW) or cookie.value is not None


@given(st.from_regex(r"[a-z]{1,3}(\.[a-z]{1,3}){0,2}", fullmatch=True))
def test_a_domain_matches_itself_and_its_subdomains(domain: str) -> None:
    assert domain_matches(domain, domain)
    assert domain_matches("x." + domain, domain)
    assert not domain_matches("x" + domain, domain)
    assert path_matches("/a/b", default_path("/a/b"))
