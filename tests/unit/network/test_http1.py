"""The reader of answers: strict, bounded, and the same in pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool.network.faults import Fault, WireError
from proxypool.network.http1 import MAX_BODY_BYTES, MAX_HEAD_BYTES, AnswerReader, Login, Response, connect_to, get

OK = b"HTTP/1.1 200 OK\r\n"


def read(raw: bytes, *, pieces: int = 0, ends: bool = True, bodiless: bool = False) -> Response | Fault | None:
    """What the reader makes of these bytes, given at once or piece by piece; a second answer behind it is a fault too."""
    reader, buffer = AnswerReader(bodiless=bodiless), bytearray()
    size = pieces or len(raw) or 1
    try:
        for start in range(0, len(raw), size):
            buffer += raw[start : start + size]
            if answer := reader(buffer, False):
                return Fault.PROTOCOL if buffer or raw[start + size :] else answer
        return reader(buffer, True) if ends else None
    except WireError as error:
        return error.fault


def body_of(raw: bytes) -> bytes:
    answer = read(raw)
    assert isinstance(answer, Response)
    return answer.body


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (OK + b"Content-Length: 3\r\n\r\nabc", b"abc"),
        (OK + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", b"abc"),  # said twice, but the same
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n", b"abc"),
        (OK + b"\r\nabc", b"abc"),  # to the end of the connection
        (b"HTTP/1.0 200\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 10 + OK + b"Content-Length: 1\r\n\r\na", b"a"),
    ],
)
def test_an_answer_is_read_the_same_in_pieces_of_any_size(raw: bytes, body: bytes) -> None:
    """Input 53: ten informational answers are the most."""
    assert body_of(raw) == body
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
        (OK + b"Content-Length: \xb2\r\n\r\nab", Fault.PROTOCOL),  # a digit by Unicode alone
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
        (OK + b"Content-Length: 65537\r\n\r\n", Fault.TOO_LARGE),  # input 33: said
        (OK + b"Transfer-Encoding: chunked\r\n\r\n8000\r\n" + b"x" * 0x8000 + b"\r\n8001\r\n", Fault.TOO_LARGE),
        (OK + b"\r\n" + b"x" * (MAX_BODY_BYTES + 1), Fault.TOO_LARGE),  # input 33: not said
        (OK + b"A: b\r\n" * (MAX_HEAD_BYTES // 6), Fault.PROTOCOL),  # endless headers
        ((b"HTTP/1.1 100 C\r\nA: " + b"x" * 20_000 + b"\r\n\r\n") * 6, Fault.PROTOCOL),  # in several heads
    ],
)
def test_what_two_readers_could_read_differently_is_refused(raw: bytes, fault: Fault) -> None:
    """Inputs 33, 34, 35, 53; I18: bounded and unambiguous, in pieces too."""
    assert read(raw) is fault
    assert read(raw, pieces=1_000) is fault


def test_what_a_proxy_wants_kept_is_kept_by_nobody() -> None:
    """Input 44: cookies, HSTS and alternative services are words in an answer; the next request knows nothing of them."""
    answer = read(
        OK + b"Set-Cookie: a=b\r\nStrict-Transport-Security: max-age=9\r\nAlt-Svc: h3=x\r\nContent-Length: 0\r\n\r\n"
    )

    assert isinstance(answer, Response)
    assert b"a=b" not in get("/", "host.example", agent="x")


PIECES = [
    b"HTTP/1.1 200 OK", b"HTTP/1.1 100 C", b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"Content-Length: 5", b"Content-Length: 3",
    b"Transfer-Encoding: chunked", b"A: b", b" folded", b"5\r\nhello\r\n", b"0\r\n\r\n", b"ffffffff\r\n", b"hello", b"\0",
]  # fmt: skip
HOSTILE = st.one_of(st.binary(max_size=300), st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join))


@given(raw=HOSTILE, size=st.integers(1, 40), ends=st.booleans(), bodiless=st.booleans())
def test_arbitrary_bytes_are_an_answer_or_one_word_of_the_closed_set(
    raw: bytes, size: int, ends: bool, bodiless: bool
) -> None:
    """Inputs 33-36, 53; I18: nothing else is ever raised, and the pieces in which bytes come change nothing."""
    whole = read(raw, ends=ends, bodiless=bodiless)

    assert whole is None or isinstance(whole, (Response, Fault))
    assert read(raw, pieces=size, ends=ends, bodiless=bodiless) == whole
    if isinstance(whole, Response):
        assert 200 <= whole.status <= 599
        assert len(whole.body) <= len(raw)


@pytest.mark.parametrize("text", ["a\r\nX: y", "a\0", "x" * 256, "\x85"])
def test_a_login_that_must_not_be_sent_is_not(text: str) -> None:
    """Input 16: control characters, and more than 255 bytes."""
    for login in (Login(username=text, password="p"), Login(username="u", password=text)):
        with pytest.raises(WireError, match="credentials_refused"):
            get("http://a.example/", "a.example", agent="x", login=login)


def test_a_login_shows_no_password() -> None:
    """I19: not in its text, which ends in tracebacks."""
    assert "s3cret" not in repr(Login(username="u", password="s3cret"))


def test_a_colon_in_a_user_name_cannot_be_told_by_basic() -> None:
    """Input 16: it would move a part of the name into the password."""
    with pytest.raises(WireError, match="credentials_refused"):
        connect_to("a.example:443", login=Login(username="a:b", password="c"))


@pytest.mark.parametrize(("target", "host"), [("/a b", "h"), ("/a\r\nX: y", "h"), ("/", "h\r\nX: y"), ("/\0", "h")])
def test_a_request_is_one_request(target: str, host: str) -> None:
    """Input 16: nothing that is asked for puts a line of its own into the request."""
    with pytest.raises(ValueError, match="white space"):
        get(target, host, agent="x")
