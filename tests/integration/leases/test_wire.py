"""The ways through real proxies of every protocol, and what never happens on them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from proxypool.checks.check import Verdict
from proxypool.checks.judge import judges
from proxypool.checks.judge.answer import Observation, new_nonce, parse_answer
from proxypool.checks.probe import pipeline
from proxypool.config.settings import Settings
from proxypool.local.farm.kinds import KINDS, PASSWORD, USER, Spec
from proxypool.local.farm.server import serve_farm
from proxypool.network import loop
from proxypool.network.address import Url
from proxypool.network.deadline import Deadline
from proxypool.network.faults import TransportError
from proxypool.network.tunnel import Connection, ProxyCredentials, ProxyHop, get_http, get_https
from proxypool.proxies.proxy import Protocol, Proxy

from tests.support.builders import NOW

KEY = b"the judge's key"
SPEAKING = ("fast", "password", "https", "socks4", "socks5", "socks5-password")
Run = Callable[[Coroutine[Any, Any, Any]], Any]


async def seen_through(folder: Path, kind: str, *, secure: bool) -> Observation:
    """What the judge sees of a GET for judge.test, a name that only the farm knows, through a proxy of this kind."""
    async with serve_farm(folder, [Spec(kind=KINDS[kind], exit_ip="127.69.0.1", country="de")], key=KEY) as (
        farm,
        ports,
    ):
        tls = ssl.create_default_context(cafile=folder / "ca.pem")
        credentials = ProxyCredentials(username=USER, password=PASSWORD) if KINDS[kind].listed_with_password else None
        hop = ProxyHop(protocol=KINDS[kind].listed_as, host="127.69.0.1", tls=tls, credentials=credentials)
        nonce = new_nonce()
        url = Url(
            scheme="https" if secure else "http", host="judge.test", port=ports[secure], target=f"/?nonce={nonce}"
        )
        wire = await Connection.open(*farm.addresses[0])
        try:
            answer = await (get_https if secure else get_http)(wire, hop, url, user_agent="x")
        finally:
            wire.close()
        return parse_answer(KEY, answer.body, nonce)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("kind", SPEAKING)
def test_a_name_goes_through_every_protocol_unresolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, secure: bool
) -> None:
    """Input 52: nothing is looked up here. Input 50: settings of the environment touch nothing. Case 36: no login arrives."""

    def no_lookup(*_: Any, **__: Any) -> Any:
        raise AssertionError("a name was looked up")

    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setattr(socket, "getaddrinfo", no_lookup)

    seen = loop.run(seen_through(tmp_path, kind, secure=secure))

    assert (seen.peer, seen.scheme) == ("127.69.0.1", "https" if secure else "http")
    assert {name for name, _ in seen.headers} == {"host", "user-agent", "accept", "connection"}


def test_a_connection_carries_one_request(tmp_path: Path) -> None:
    """Input 35: it is never reused."""

    async def asked_twice() -> str:
        async with serve_farm(tmp_path, [Spec(kind=KINDS["fast"], exit_ip="127.69.3.1", country="de")], key=KEY) as (
            farm,
            ports,
        ):
            hop = ProxyHop(protocol="http", host="127.69.3.1", tls=ssl.create_default_context())
            url = Url(scheme="http", host="127.0.0.1", port=ports[0], target=f"/?nonce={new_nonce()}")
            wire = await Connection.open(*farm.addresses[0])
            await get_http(wire, hop, url, user_agent="x")
            with pytest.raises(TransportError) as raised:
                await get_http(wire, hop, url, user_agent="x")
            return raised.value.fault.value

    assert loop.run(asked_twice()) == "connection_closed"


def test_a_proxy_that_fails_is_never_gone_around(tmp_path: Path) -> None:
    """Input 51: the judge would answer a direct request, and gets none."""

    async def connections() -> int:
        count = 0

        def counted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal count
            count += 1
            writer.close()

        async with await asyncio.start_server(counted, "127.0.0.1", 0) as judge:
            port = judge.sockets[0].getsockname()[1]
            known = Settings(judge_url=f"http://127.0.0.1:{port}/", allow_loopback=True)
            specs = [Spec(kind=KINDS[kind], exit_ip=f"127.69.1.{i}", country="de")
                     for i, kind in enumerate(("dead", "nopassword", "babbler", "socks5-nopassword"), 1)]  # fmt: skip
            async with serve_farm(tmp_path, specs, key=KEY) as (farm, _):
                for entry in farm.entries():
                    proxy = Proxy(Protocol(entry["protocol"]), entry["host"], entry["port"])
                    check = await pipeline.check(proxy, judges.build_context(known, KEY), now=NOW)
                    assert check.verdict is Verdict.FAILED
        return count

    assert loop.run(connections()) == 0


def test_one_batch_makes_one_context_that_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 37: contexts cost 25 ms each, and every check uses the batch's."""
    made: list[ssl.SSLContext] = []
    make = ssl.create_default_context

    def noted(**how: Any) -> ssl.SSLContext:
        made.append(make(**how))
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", noted)

    async def check_some() -> list[bool | None]:
        specs = [Spec(kind=KINDS["fast"], exit_ip=f"127.69.2.{i}", country="de") for i in range(1, 6)]
        async with serve_farm(tmp_path, specs, key=KEY) as (farm, ports):
            known = Settings(judge_url=f"http://127.0.0.1:{ports[0]}/", judge_https_url=f"https://127.0.0.1:{ports[1]}/",
                             judge_ca_file=str(tmp_path / "ca.pem"), allow_loopback=True)  # fmt: skip
            context = await judges.probe_judges(judges.build_context(known, KEY))
            assert context is not None
            proxies = [Proxy(Protocol.HTTP, *place) for place in farm.addresses]
            return [(await pipeline.check(proxy, context, now=NOW)).https for proxy in proxies]

    assert loop.run(check_some()) == [True] * 5
    assert [(one.verify_mode, one.check_hostname) for one in made] == [(ssl.CERT_REQUIRED, True)]


@pytest.mark.parametrize("run", [asyncio.run, loop.run])
def test_a_blocked_loop_is_not_blamed_on_the_proxy(run: Run) -> None:
    """Data that arrives while the event loop is blocked is read before the timeout."""

    async def answer_while_blocked() -> bytes:
        async def answers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"x")
            writer.close()

        async with await asyncio.start_server(answers, "127.0.0.1", 0) as server:
            wire = await Connection.open("127.0.0.1", server.sockets[0].getsockname()[1])
            try:
                asyncio.get_running_loop().call_later(0.01, time.sleep, 0.4)
                with Deadline(0.1):
                    await asyncio.sleep(0.02)  # the loop is blocked here
                    return await wire.read(lambda buffer, _: bytes(buffer) or None)
            finally:
                wire.close()
                await asyncio.sleep(0.02)

    assert run(answer_while_blocked()) == b"x"


@pytest.mark.parametrize("run", [asyncio.run, loop.run])
def test_a_deadline_ends_what_takes_too_long_and_nothing_else(run: Run) -> None:
    """Input 32: alone, nested in a longer one, and with an external cancellation."""

    async def outcomes() -> list[str]:
        found = []
        for outer, inner in ((9.0, 0.01), (0.01, 9.0)):
            try:
                with Deadline(outer):
                    try:
                        with Deadline(inner):
                            await asyncio.sleep(5)
                    except TimeoutError:
                        found.append("inner")
            except TimeoutError:
                found.append("outer")
        task = asyncio.create_task(_sleep_under(Deadline(9.0)))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [*found, "cancelled" if task.cancelled() else "not cancelled"]

    assert run(outcomes()) == ["inner", "outer", "cancelled"]


async def _sleep_under(deadline: Deadline) -> None:
    with deadline:
        await asyncio.sleep(5)


def test_a_connection_that_is_refused_is_an_answer() -> None:
    """Input 51: and it is the last word."""

    async def fault(ip: str, port: int) -> str:
        with pytest.raises(TransportError) as raised:
            await Connection.open(ip, port)
        return raised.value.fault.value

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert loop.run(fault("127.0.0.1", bound.getsockname()[1])) == "connection_refused"
