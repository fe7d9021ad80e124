"""The response parser: strict, bounded, independent of how the bytes are split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool.network.faults import Fault, TransportError
from proxypool.network.http1 import (
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    ProxyCredentials,
    Response,
    ResponseReader,
    build_connect,
    build_get,
)

OK = b"HTTP/1.1 200 OK\r\n"


def read(raw: bytes, *, pieces: int = 0, ends: bool = True, no_body: bool = False) -> Response | Fault | None:
    """The parser's result for these bytes, fed at once or in pieces; bytes after the response are a fault, too."""
    reader, buffer = ResponseReader(no_body=no_body), bytearray()
    size = pieces or len(raw) or 1
    try:
        for start in range(0, len(raw), size):
            buffer += raw[start : start + size]
            if response := reader(buffer, False):
                return Fault.PROTOCOL if buffer or raw[start + size :] else response
        return reader(buffer, True) if ends else None
    except TransportError as error:
        return error.fault


def read_body(raw: bytes) -> bytes:
    response = read(raw)
    assert isinstance(response, Response)
    return response.body


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (OK + b"Content-Length: 3\r\n\r\nabc", b"abc"),
        (OK + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", b"abc"),  # duplicate, but equal
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n", b"abc"),
        (OK + b"\r\nabc", b"abc"),  # until the connection is closed
        (b"HTTP/1.0 200\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 10 + OK + b"Content-Length: 1\r\n\r\na", b"a"),
    ],
)
def test_a_response_is_parsed_the_same_for_any_split(raw: bytes, body: bytes) -> None:
    """Input 53: at most ten informational responses."""
    assert read_body(raw) == body
    assert all(read(raw, pieces=size) == read(raw) for size in range(1, 8))


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"", Fault.CLOSED),
        (b"HTTP/1.1 200 OK\r\nA: b", Fault.PROTOCOL),  # torn
        (OK + b"Content-Length: 3\r\n\r\nab", Fault.PROTOCOL),  # input 34
        (OK + b"Content-Length: 1\r\n\r\nab", Fault.PROTOCOL),  # inputs 34 and 35: a second answer
        (OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", Fault.PROTOCOL),  # input 35
        (OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", Fault.PROTOCOL),
        (OK + b"Content-Length: 3, 3\r\n\r\nabc", Fault.PROTOCOL),
        (OK + b"Content-Length: +3\r\n\r\nabc", Fault.PROTOCOL),
        (OK + b"Content-Length: \xb2\r\n\r\nab", Fault.PROTOCOL),  # a digit in Unicode only
        (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", Fault.PROTOCOL),
        (OK + b"A: b\r\n folded: yes\r\n\r\n", Fault.PROTOCOL),  # input 35
        (OK + b"A : b\r\n\r\n", Fault.PROTOCOL),
        (OK + b"no colon\r\n\r\n", Fault.PROTOCOL),
        (b"HTTP/1.1 200 OK\nContent-Length: 1\n\na", Fault.PROTOCOL),  # input 35: bare line feeds
        (OK + b"A: b\nContent-Length: 1\r\n\r\na", Fault.PROTOCOL),
        (OK + b"A: \x00\r\n\r\n", Fault.PROTOCOL),
        (b"HTTP/2 200 OK\r\n\r\n", Fault.PROTOCOL),  # input 53
        (b"HTTP/1.1 099 No\r\n\r\n", Fault.PROTOCOL),
        (b"HTTP/1.1 101 Switching\r\n\r\n", Fault.PROTOCOL),  # input 53: no websockets
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 11 + OK + b"\r\n", Fault.PROTOCOL),  # input 53
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: x\r\n\r\n", Fault.PROTOCOL),  # input 53
        (OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\na\r\n0\r\n\r\n", Fault.PROTOCOL),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1_0\r\na\r\n0\r\n\r\n", Fault.PROTOCOL),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", Fault.PROTOCOL),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 99, Fault.PROTOCOL),
        (OK + b"Content-Length: 65537\r\n\r\n", Fault.TOO_LARGE),  # input 33: declared
        (OK + b"Transfer-Encoding: chunked\r\n\r\n8000\r\n" + b"x" * 0x8000 + b"\r\n8001\r\n", Fault.TOO_LARGE),
        (OK + b"\r\n" + b"x" * (MAX_BODY_BYTES + 1), Fault.TOO_LARGE),  # input 33: undeclared
        (OK + b"A: b\r\n" * (MAX_HEAD_BYTES // 6), Fault.PROTOCOL),  # endless headers
        ((b"HTTP/1.1 100 C\r\nA: " + b"x" * 20_000 + b"\r\n\r\n") * 6, Fault.PROTOCOL),  # in several heads
    ],
)
def test_an_ambiguous_response_is_rejected(raw: bytes, fault: Fault) -> None:
    """Inputs 33, 34, 35, 53; I18: bounded and unambiguous, for any split."""
    assert read(raw) is fault
    assert read(raw, pieces=1_000) is fault


def test_cookies_and_other_state_of_a_response_are_not_stored() -> None:
    """Input 44: cookies, HSTS and Alt-Svc of a response have no effect on the next request."""
    response = read(
        OK + b"Set-Cookie: a=b\r\nStrict-Transport-Security: max-age=9\r\nAlt-Svc: h3=x\r\nContent-Length: 0\r\n\r\n"
    )

    assert isinstance(response, Response)
    assert b"a=b" not in build_get("/", "host.example", user_agent="x")


FRAGMENTS = [
    b"HTTP/1.1 200 OK", b"HTTP/1.1 100 C", b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"Content-Length: 5", b"Content-Length: 3",
    b"Transfer-Encoding: chunked", b"A: b", b" folded", b"5\r\nhello\r\n", b"0\r\n\r\n", b"ffffffff\r\n", b"hello", b"\0",
]  # fmt: skip
HOSTILE = st.one_of(st.binary(max_size=300), st.lists(st.sampled_from(FRAGMENTS), max_size=14).map(b"".join))


@given(raw=HOSTILE, size=st.integers(1, 40), ends=st.booleans(), no_body=st.booleans())
def test_arbitrary_bytes_give_a_response_or_a_fault(raw: bytes, size: int, ends: bool, no_body: bool) -> None:
    """Inputs 33-36, 53; I18: no other exception is raised, and the result is the same for any split."""
    whole = read(raw, ends=ends, no_body=no_body)

    assert whole is None or isinstance(whole, (Response, Fault))
    assert read(raw, pieces=size, ends=ends, no_body=no_body) == whole
    if isinstance(whole, Response):
        assert 200 <= whole.status <= 599
        assert len(whole.body) <= len(raw)


@pytest.mark.parametrize("text", ["a\r\nX: y", "a\0", "x" * 256, "\x85"])
def test_credentials_that_cannot_be_sent_are_rejected(text: str) -> None:
    """Input 16: control characters, and more than 255 bytes."""
    for credentials in (ProxyCredentials(username=text, password="p"), ProxyCredentials(username="u", password=text)):
        with pytest.raises(TransportError, match="credentials_refused"):
            build_get("http://a.example/", "a.example", user_agent="x", credentials=credentials)


def test_credentials_hide_the_password() -> None:
    """I19: not in its repr, which may appear in tracebacks."""
    assert "s3cret" not in repr(ProxyCredentials(username="u", password="s3cret"))


def test_a_colon_in_a_user_name_is_rejected_for_basic_authentication() -> None:
    """Input 16: the part after the colon would be read as the password."""
    with pytest.raises(TransportError, match="credentials_refused"):
        build_connect("a.example:443", credentials=ProxyCredentials(username="a:b", password="c"))


@pytest.mark.parametrize(("target", "host"), [("/a b", "h"), ("/a\r\nX: y", "h"), ("/", "h\r\nX: y"), ("/\0", "h")])
def test_a_request_with_an_injected_line_is_rejected(target: str, host: str) -> None:
    """Input 16: a target or host cannot inject a line into the request."""
    with pytest.raises(ValueError, match="white space"):
        build_get(target, host, user_agent="x")
