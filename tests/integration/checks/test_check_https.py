"""CONNECT and TLS through real proxies on loopback: carried, intercepted, refused."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from proxypool.checks.check import Check, Reason, Verdict
from proxypool.checks.judge import judges
from proxypool.checks.probe import pipeline
from proxypool.config.settings import Settings
from proxypool.local.farm.certificates import Certificates, local_certificates
from proxypool.proxies.proxy import Protocol, Proxy

from tests.integration.checks.test_check_pipeline import KEY, Behaviour, forward, judge_behaviour, port, serve
from tests.support.builders import NOW

CONNECTED = b"HTTP/1.1 200 OK\r\n\r\n"


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(4096):
        writer.write(data)
        await writer.drain()
    writer.close()


def connect_proxy(*, reply: bytes, to: int | None = None) -> Behaviour:
    """Forwards plain requests; answers CONNECT with `reply`, and pipes to the target or to the port `to`."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        if not head.startswith(b"CONNECT"):
            writer.write(await forward(head))
            return
        writer.write(reply)
        if reply != CONNECTED:
            return
        target = to or int(head.split(b" ")[1].rpartition(b":")[2])
        target_reader, target_writer = await asyncio.open_connection("127.0.0.1", target, local_addr=("127.0.0.7", 0))
        await asyncio.gather(pipe(reader, target_writer), pipe(target_reader, writer), return_exceptions=True)

    return behave


async def serve_tls(certificates: Certificates) -> asyncio.Server:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await judge_behaviour(reader, writer, await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    return await asyncio.start_server(accept, "127.0.0.1", 0, ssl=certificates.server_context())


async def check(folder: Path, *, reply: bytes, intercepts: bool) -> Check:
    ours, theirs = (
        local_certificates(_make_folder(folder / "ours")),
        local_certificates(_make_folder(folder / "theirs")),
    )
    async with (
        await serve(judge_behaviour) as plain,
        await serve_tls(ours) as secure,
        await serve_tls(theirs) as middle,
    ):
        proxy_server = await serve(connect_proxy(reply=reply, to=port(middle) if intercepts else None))
        settings = Settings(judge_url=f"http://127.0.0.1:{port(plain)}/", judge_https_url=f"https://127.0.0.1:{port(secure)}/",
                         judge_ca_file=str(ours.ca_file), allow_loopback=True, check_stage_seconds=20)  # fmt: skip
        context = await judges.probe_judges(judges.build_context(settings, KEY))
        assert context is not None
        async with proxy_server:
            result = await pipeline.check(Proxy(Protocol.HTTP, "127.0.0.1", port(proxy_server)), context, now=NOW)
            await asyncio.sleep(0.05)  # lets the servers close their connections
            return result


def _make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("reply", "intercepts", "https", "reason"),
    [
        (CONNECTED, False, True, None),  # case 6
        (CONNECTED, True, False, Reason.TLS_INTERCEPT),  # input 37
        (b"HTTP/1.1 200 OK\r\n\r\ngarbage", False, False, Reason.PROTOCOL),  # input 36
        (b"HTTP/1.1 407 Who\r\n\r\n", False, False, Reason.CREDENTIALS),  # input 36
        (b"HTTP/1.1 302 Found\r\nLocation: http://ads.example\r\n\r\n", False, False, Reason.REDIRECT),  # input 36
    ],
)
def test_https_is_true_only_for_a_proxy_that_carries_it_unmodified(
    tmp_path: Path, reply: bytes, intercepts: bool, https: bool, reason: Reason | None
) -> None:
    """Inputs 36, 37; case 6."""
    result = asyncio.run(check(tmp_path, reply=reply, intercepts=intercepts))

    assert (result.verdict, result.https, result.reason) == (Verdict.PASSED, https, reason)


def test_a_certificate_is_always_verified() -> None:
    """Input 37: there is no verify=False."""
    context = judges.build_context(Settings(judge_url="http://judge.test/"), KEY)

    assert context.tls.verify_mode is ssl.CERT_REQUIRED
    assert context.tls.check_hostname
