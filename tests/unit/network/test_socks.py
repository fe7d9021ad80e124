"""SOCKS as bytes: what is said, and every answer of the other side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool.network import socks
from proxypool.network.faults import Fault, WireError
from proxypool.network.http1 import Login

LOGIN = Login(username="u", password="p")


def test_a_name_goes_to_the_proxy_as_a_name() -> None:
    """Input 52: SOCKS4a and SOCKS5 carry it unresolved."""
    assert socks.connect4("a.example", 80, None) == b"\x04\x01\x00\x50\x00\x00\x00\x01\x00a.example\x00"
    assert socks.connect5("a.example", 443) == b"\x05\x01\x00\x03\x09a.example\x01\xbb"


def test_an_address_goes_as_an_address() -> None:
    assert socks.connect4("192.0.2.1", 80, LOGIN) == b"\x04\x01\x00\x50\xc0\x00\x02\x01u\x00"
    assert socks.connect5("192.0.2.1", 80) == b"\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50"
    assert socks.connect5("2001:db8::1", 80)[3:5] == b"\x04\x20"


def test_socks4_has_no_words_for_ipv6() -> None:
    with pytest.raises(WireError, match="unsupported"):
        socks.connect4("2001:db8::1", 80, None)


@pytest.mark.parametrize(
    ("code", "fault"),
    [(91, Fault.CONNECT_REFUSED), (92, Fault.CREDENTIALS), (93, Fault.CREDENTIALS), (0, Fault.PROTOCOL)],
)
def test_socks4_refusals_have_their_words(code: int, fault: Fault) -> None:
    with pytest.raises(WireError) as raised:
        socks.check4(bytes((0, code)) + bytes(6))

    assert raised.value.fault is fault


@pytest.mark.parametrize(
    ("reply", "login", "fault"),
    [
        (b"\x05\xff", LOGIN, Fault.CREDENTIALS),
        (b"\x05\xff", None, Fault.CREDENTIALS),  # it wants a login that the list does not have
        (b"\x05\x02", None, Fault.PROTOCOL),  # chose what was not offered
        (b"HT", None, Fault.PROTOCOL),
    ],
)
def test_a_method_that_was_not_offered_is_a_fault(reply: bytes, login: Login | None, fault: Fault) -> None:
    with pytest.raises(WireError) as raised:
        socks.method5(reply, login)

    assert raised.value.fault is fault


@pytest.mark.parametrize("text", ["x" * 256, "a\0b", "é" * 128])
def test_socks5_names_and_passwords_have_at_most_255_bytes(text: str) -> None:
    """Input 16: counted in bytes, without control characters."""
    with pytest.raises(WireError, match="credentials_refused"):
        socks.login5(Login(username="u", password=text))


@given(raw=st.binary(max_size=40), size=st.integers(1, 40))
def test_arbitrary_replies_are_a_way_or_one_word(raw: bytes, size: int) -> None:
    """Input 36: in pieces of any size the same."""

    def read(pieces: int) -> bytes | Fault | None:
        buffer = bytearray()
        try:
            for start in range(0, len(raw), pieces):
                buffer += raw[start : start + pieces]
                if (found := socks.reply5(buffer, False)) is not None:
                    return found
            return socks.reply5(buffer, True)
        except WireError as error:
            return error.fault

    assert read(size) == read(40)
