"""SOCKS request bytes, and all replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool.network import socks
from proxypool.network.faults import Fault, TransportError
from proxypool.network.http1 import ProxyCredentials

CREDENTIALS = ProxyCredentials(username="u", password="p")


def test_a_name_is_sent_unresolved() -> None:
    """Input 52: SOCKS4a and SOCKS5 carry it unresolved."""
    assert socks.socks4_connect_request("a.example", 80, None) == b"\x04\x01\x00\x50\x00\x00\x00\x01\x00a.example\x00"
    assert socks.socks5_connect_request("a.example", 443) == b"\x05\x01\x00\x03\x09a.example\x01\xbb"


def test_an_address_is_sent_in_binary() -> None:
    assert socks.socks4_connect_request("192.0.2.1", 80, CREDENTIALS) == b"\x04\x01\x00\x50\xc0\x00\x02\x01u\x00"
    assert socks.socks5_connect_request("192.0.2.1", 80) == b"\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50"
    assert socks.socks5_connect_request("2001:db8::1", 80)[3:5] == b"\x04\x20"


def test_socks4_does_not_support_ipv6() -> None:
    with pytest.raises(TransportError, match="unsupported"):
        socks.socks4_connect_request("2001:db8::1", 80, None)


@pytest.mark.parametrize(
    ("code", "fault"),
    [(91, Fault.CONNECT_REFUSED), (92, Fault.CREDENTIALS), (93, Fault.CREDENTIALS), (0, Fault.PROTOCOL)],
)
def test_socks4_reply_codes_map_to_faults(code: int, fault: Fault) -> None:
    with pytest.raises(TransportError) as raised:
        socks.check_socks4_reply(bytes((0, code)) + bytes(6))

    assert raised.value.fault is fault


@pytest.mark.parametrize(
    ("reply", "credentials", "fault"),
    [
        (b"\x05\xff", CREDENTIALS, Fault.CREDENTIALS),
        (b"\x05\xff", None, Fault.CREDENTIALS),  # it requires credentials that the list does not have
        (b"\x05\x02", None, Fault.PROTOCOL),  # chose what was not offered
        (b"HT", None, Fault.PROTOCOL),
    ],
)
def test_a_method_that_was_not_offered_is_a_fault(
    reply: bytes, credentials: ProxyCredentials | None, fault: Fault
) -> None:
    with pytest.raises(TransportError) as raised:
        socks.parse_socks5_method(reply, credentials)

    assert raised.value.fault is fault


@pytest.mark.parametrize("text", ["x" * 256, "a\0b", "é" * 128])
def test_socks5_names_and_passwords_have_at_most_255_bytes(text: str) -> None:
    """Input 16: counted in bytes, without control characters."""
    with pytest.raises(TransportError, match="credentials_refused"):
        socks.socks5_auth_request(ProxyCredentials(username="u", password=text))


@given(raw=st.binary(max_size=40), size=st.integers(1, 40))
def test_arbitrary_replies_give_a_result_or_a_fault(raw: bytes, size: int) -> None:
    """Input 36: the result is the same for any split."""

    def read(pieces: int) -> bytes | Fault | None:
        buffer = bytearray()
        try:
            for start in range(0, len(raw), pieces):
                buffer += raw[start : start + pieces]
                if (reply := socks.read_socks5_reply(buffer, False)) is not None:
                    return reply
            return socks.read_socks5_reply(buffer, True)
        except TransportError as error:
            return error.fault

    assert read(size) == read(40)
