"""A proxy's identity."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from proxypool.proxies.proxy import Protocol, Proxy

from tests.support.builders import a_proxy


def test_one_gateway_with_three_passwords_is_three_proxies() -> None:
    """Case 8."""
    assert len({a_proxy(username="u", password=password).id for password in ("p1", "p2", "p3")}) == 3


def test_the_text_of_a_proxy_hides_its_password() -> None:
    """I19, case 36."""
    proxy = a_proxy(username="u@x", password="s3cret")
    assert "s3cret" not in f"{proxy} {proxy!r}"
    assert str(proxy) == "http://u%40x:***@198.51.100.1:8080"


def test_the_url_percent_encodes_reserved_characters() -> None:
    """Case 9."""
    assert a_proxy(username="user", password="p@ss#1").url == "http://user:p%40ss%231@198.51.100.1:8080"


def test_an_ipv6_host_is_in_brackets_in_the_url() -> None:
    assert Proxy(Protocol.SOCKS5, "2001:db8::1", 1080).url == "socks5://[2001:db8::1]:1080"


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=126)),
    st.text(st.characters(min_codepoint=33, max_codepoint=126)),
)
def test_moving_a_character_between_user_and_password_is_another_proxy(user: str, password: str) -> None:
    """Case 8: the fields are delimited in the hash."""
    if password:
        assert (
            a_proxy(username=user, password=password).id
            != a_proxy(username=user + password[0], password=password[1:]).id
        )
