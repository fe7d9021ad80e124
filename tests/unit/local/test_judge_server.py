"""The judge's server on real loopback sockets, and its certificates."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path

import httpx
import pytest
from proxypool.checks.judge.answer import parse_answer
from proxypool.local.farm.certificates import local_certificates
from proxypool.local.farm.judge_server import Judge, serve_judge

NONCE = "cd" * 16
REQUEST = f"GET /?nonce={NONCE} HTTP/1.1\r\nHost: h\r\nB: 1\r\nA: 2\r\n\r\n".encode()


def replies(sent: bytes, judge: Judge) -> bytes:
    async def talk() -> bytes:
        async with serve_judge(judge, port=0) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            writer.write_eof()
            received = await reader.read()
            writer.close()
            await writer.wait_closed()
            return received

    return asyncio.run(talk())


def test_the_response_has_the_peer_address_and_the_headers_in_order() -> None:
    body = replies(REQUEST, Judge(key=b"k")).partition(b"\r\n\r\n")[2]

    seen = parse_answer(b"k", body, NONCE)

    assert (seen.peer, seen.scheme) == ("127.0.0.1", "http")
    assert seen.headers == (("host", "h"), ("b", "1"), ("a", "2"))


def test_two_requests_of_one_connection_get_two_responses() -> None:
    assert replies(REQUEST * 2, Judge(key=b"k")).count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),  # no nonce
        (REQUEST.replace(b"GET", b"POST"), b"405"),
        (b"PROXY TCP4 9.9.9.9 127.0.0.1 1 2\r\n" + REQUEST, b"400"),  # nobody can announce another peer
    ],
)
def test_anything_else_than_a_judges_request_is_refused(sent: bytes, status: bytes) -> None:
    assert replies(sent, Judge(key=b"k")).split(b" ")[1] == status


def test_https_is_verified_under_the_local_authority_alone(tmp_path: Path) -> None:
    certificates = local_certificates(tmp_path)

    async def ask(trusted: ssl.SSLContext) -> str:
        async with serve_judge(Judge(key=b"k"), port=0, context=certificates.server_context()) as (_, port):
            async with httpx.AsyncClient(verify=trusted, trust_env=False) as client:
                response = await client.get(f"https://127.0.0.1:{port}/", params={"nonce": NONCE})
            return parse_answer(b"k", response.content, NONCE).scheme

    assert asyncio.run(ask(ssl.create_default_context(cafile=certificates.ca_file))) == "https"
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        asyncio.run(ask(ssl.create_default_context()))


def test_certificates_are_reused_while_valid_and_replaced_if_broken(tmp_path: Path) -> None:
    first = local_certificates(tmp_path).ca_file.read_bytes()
    second = local_certificates(tmp_path).ca_file.read_bytes()

    (tmp_path / "judge-chain.pem").write_text("broken")

    assert second == first
    assert local_certificates(tmp_path).ca_file.read_bytes() != first
    assert (tmp_path / "judge-key.pem").stat().st_mode & 0o077 == 0


def test_the_ip_page_shows_the_exit_address_only() -> None:
    head, _, body = replies(b"GET /ip HTTP/1.1\r\nHost: h\r\n\r\n", Judge(key=b"k")).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 ")
    assert json.loads(body) == {"origin": "127.0.0.1"}
