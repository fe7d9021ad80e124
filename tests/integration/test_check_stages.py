"""The stages behind the first request, before the real judge: HTTPS, integrity, exits, targets, several judges."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from proxypool.checks import direct, pipeline
from proxypool.checks.check import Basis, Blame, Check, Reason, TargetVerdict, Verdict
from proxypool.checks.checkers import stages
from proxypool.checks.context import place
from proxypool.checks.rule import read_rule
from proxypool.local.judge import Judge, serve_judge
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy
from proxypool.settings import Settings

from tests.support.builders import NOW
from tests.support.proxies import (
    EXIT,
    KEY,
    Behaviour,
    Court,
    both_ways,
    certificates_in,
    court,
    injects_into,
    port,
    proxy,
    response,
    serve,
)  # fmt: skip

_T = TypeVar("_T")


def in_court(folder: Path, ask: Callable[[Court], Awaitable[_T]], **how: object) -> _T:
    async def run() -> _T:
        async with court(folder, **how) as this:  # type: ignore[arg-type]
            return await ask(this)

    return asyncio.run(run())


def test_an_honest_proxy_passes_every_stage(tmp_path: Path) -> None:
    found = in_court(tmp_path, lambda this: this.check(proxy()))

    assert (found.verdict, found.reason, found.https, found.tampered) == (Verdict.PASSED, None, True, False)
    assert (found.exit_ip, found.signed, found.anonymity, found.basis) == (EXIT, True, Anonymity.ELITE, Basis.RAW)
    assert list(found.timings_ms) == [stage.name for stage in stages()]


def test_a_light_check_asks_whether_http_still_works_and_no_more(tmp_path: Path) -> None:
    found = in_court(tmp_path, lambda this: this.check(proxy(), full=False))

    assert (found.verdict, found.https, found.anonymity) == (Verdict.PASSED, None, Anonymity.ELITE)
    assert list(found.timings_ms) == ["reachable", "http", "anonymity", "exit"]


@pytest.mark.parametrize("judges", [1, 2])
def test_a_proxy_that_is_honest_to_the_judge_alone_is_found_out_by_the_canary(tmp_path: Path, judges: int) -> None:
    """Inputs 41, 43; case 4: it alters web pages and leaves the judge's JSON as it is."""
    found = in_court(tmp_path, lambda this: this.check(proxy(alter=injects_into(b"text/html"))), judges=judges)

    assert (found.verdict, found.reason, found.tampered) == (Verdict.PASSED, Reason.TAMPERED, True)


def test_a_proxy_that_only_adds_via_is_not_tampering(tmp_path: Path) -> None:
    """Case 4."""
    found = in_court(tmp_path, lambda this: this.check(proxy(add=b"Via: 1.1 squid\r\n")))

    assert (found.tampered, found.anonymity, found.reason) == (False, Anonymity.ANONYMOUS, None)


def test_tls_that_is_opened_for_one_host_only_takes_https_away(tmp_path: Path) -> None:
    """Input 38: each check asks the canary of another host than its judge's."""

    async def ask(this: Court) -> list[Check]:
        theirs = certificates_in(tmp_path / "theirs").server_context()
        async with serve_judge(Judge(key=KEY), port=0, context=theirs) as (_, middle):
            return [await this.check(proxy(intercepts={this.secure[0]: middle})) for _ in range(3)]

    checks = in_court(tmp_path, ask, judges=2)

    assert [(found.https, found.reason) for found in checks] == [(False, Reason.TLS_INTERCEPT)] * 3


@pytest.mark.parametrize(("body", "tampered"), [(b"never changes", False), (b"never changed", True)])
def test_pages_of_other_hosts_may_be_canaries(tmp_path: Path, body: bytes, tampered: bool) -> None:
    """Input 38: the digest is the operator's."""

    async def ask(this: Court) -> Check:
        async def page(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
            writer.write(response(body))

        async with await serve(page) as server:
            url = f"http://127.0.0.1:{port(server)}/page"
            digest = hashlib.sha256(b"never changes").hexdigest()
            known = Settings(judge_url="http://judge.test/", canary_urls=(f"{url}#{digest}",))
            only = direct.bench(known, KEY).canaries
            judges = tuple(replace(one, has_canary=False) for one in this.bench.judges)
            return await this.check(proxy(), canaries=only, judges=judges)

    assert in_court(tmp_path, ask).tampered is tampered


def test_a_canary_page_that_changed_or_is_gone_blames_nobody(tmp_path: Path) -> None:
    """Input 38: it is asked for directly first."""
    digest = hashlib.sha256(b"as it was").hexdigest()

    async def run() -> tuple[int, Check]:
        async def page(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
            writer.write(response(b"changed"))

        async with await serve(page) as server:
            urls = (f"http://127.0.0.1:{port(server)}/#{digest}", f"http://127.0.0.1:9/#{digest}")
            async with court(tmp_path, canary_urls=urls) as this:
                return len(this.bench.canaries), await this.check(proxy())

    left, found = asyncio.run(run())

    assert (left, found.verdict, found.tampered) == (0, Verdict.PASSED, False)


def test_the_exit_of_the_https_leg_counts_and_all_are_remembered(tmp_path: Path) -> None:
    """Input 45: another exit at each request is a fact, not an error."""
    found = in_court(tmp_path, lambda this: this.check(proxy(exits=("127.0.0.7", "127.0.0.8", "127.0.0.9"))))

    assert (found.verdict, found.exit_ip, found.exits) == (Verdict.PASSED, "127.0.0.8", ("127.0.0.7", "127.0.0.8"))


@pytest.mark.parametrize("body", [b"<html>please log in", b'{"err": "limit"}'])
def test_a_ban_at_one_target_says_nothing_of_another(tmp_path: Path, body: bytes) -> None:
    """Cases 7, 29: status 200 without the text of those who are served; a target that is down blames nobody."""

    def site(answer: bytes) -> Behaviour:
        async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
            writer.write(answer)

        return behave

    async def ask(this: Court) -> Check:
        async with (
            await serve(site(response(body)), host="127.0.0.2") as shop,
            await serve(site(response(b"the price of news")), host="127.0.0.3") as news,
            await serve(site(response(b"", status="502 Oh")), host="127.0.0.4") as dead,
        ):
            places = (("127.0.0.2", shop), ("127.0.0.3", news), ("127.0.0.4", dead))
            rules = [{"url": f"http://{host}:{port(server)}/", "contains": ["price"]} for host, server in places]
            return await this.check(proxy(), rules=tuple(read_rule(one, allow_loopback=True) for one in rules))

    found = in_court(tmp_path, ask)

    assert found.targets == {
        "127.0.0.2": TargetVerdict.BANNED, "127.0.0.3": TargetVerdict.OK, "127.0.0.4": TargetVerdict.FAILED,
    }  # fmt: skip
    assert (found.verdict, found.reason) == (Verdict.PASSED, None)


def test_what_a_proxy_wants_remembered_is_forgotten(tmp_path: Path) -> None:
    """Input 44: each request is made on a connection of its own, with nothing in it that an answer has set."""
    heads: list[bytes] = []

    def alter(head: bytes, answer: bytes) -> bytes:
        heads.append(head)
        wishes = b'Set-Cookie: id=7\r\nStrict-Transport-Security: max-age=99\r\nAlt-Svc: h2=":1"\r\n'
        return answer.replace(b"\r\n", b"\r\n" + wishes, 1)

    async def ask(this: Court) -> list[Check]:
        return [await this.check(proxy(alter=alter)) for _ in range(2)]

    checks = in_court(tmp_path, ask)

    assert [found.reason for found in checks] == [None, None]
    assert len(heads) == 4
    assert not any(b"cookie" in head.lower() or b"https://" in head for head in heads)


def test_one_of_three_judges_is_down_and_the_other_two_are_used(tmp_path: Path) -> None:
    """Case 32."""

    async def ask(this: Court) -> list[Check]:
        assert [one.plain.port for one in this.bench.judges] == list(this.plain)
        return [await this.check(proxy()) for _ in range(4)]

    checks = in_court(tmp_path, ask, judges=2, down=1)

    assert {found.verdict for found in checks} == {Verdict.PASSED}


@pytest.mark.parametrize(("is_up", "verdict", "blame"), [
    (False, Verdict.INCONCLUSIVE, Blame.JUDGE),
    (True, Verdict.FAILED, Blame.PROXY),
])  # fmt: skip
@pytest.mark.parametrize("status", ["503 Busy", "429 Slow down"])
def test_an_unsigned_503_is_the_judges_unless_it_answers_directly(
    tmp_path: Path, status: str, is_up: bool, verdict: Verdict, blame: Blame
) -> None:
    """Case 32: the judge went down after the batch had begun."""

    async def busy(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(response(b"", status=status))

    async def ask(this: Court) -> Check:
        judge = this.bench.judges[0]
        judge = judge if is_up else replace(judge, plain=place("http://127.0.0.1:9/"))
        return await this.check(busy, judges=(judge,), is_up=direct.Witness(this.bench).is_up)

    found = in_court(tmp_path, ask)

    assert (found.verdict, found.blame) == (verdict, blame)


def test_other_peoples_judges_are_used_by_setting_and_called_unsigned() -> None:
    """Input 39: a verdict by an echo service says that nobody signed it."""

    async def echo(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        first, *lines = head.decode().rstrip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        origin = writer.get_extra_info("peername")[0]
        url = "http://echo.test" + first.split(" ")[1]
        writer.write(response(json.dumps({"headers": headers, "origin": origin, "url": url}).encode()))

    async def run() -> Check:
        async with await serve(echo) as there, await serve(proxy(add=b"X-Forwarded-For: 127.0.0.1\r\n")) as server:
            known = Settings(
                judge_url="none", judge_echo_urls=(f"http://127.0.0.1:{port(there)}/get",), allow_loopback=True
            )
            bench = await direct.introduced(direct.bench(known, None))
            assert bench is not None
            return await pipeline.check(Proxy(Protocol.HTTP, "127.0.0.1", port(server)), bench, now=NOW)

    found = asyncio.run(run())

    assert (found.verdict, found.exit_ip, found.signed, found.basis) == (Verdict.PASSED, EXIT, False, Basis.ECHO)
    assert found.anonymity is Anonymity.TRANSPARENT


@pytest.mark.parametrize(
    "added",
    [
        b"X-Anything: for=127.0.0.1\r\n",
        b"X-Mapped: ::ffff:127.0.0.1\r\n",
        b"X-Number: 2130706433\r\n",
        b"X-Name: host-127-0-0-1.example\r\n",
        b"User-Agent: agent of 127.0.0.1\r\n",
    ],
)
def test_our_address_in_any_header_and_spelling_is_transparent(tmp_path: Path, added: bytes) -> None:
    """Input 42."""
    assert in_court(tmp_path, lambda this: this.check(proxy(add=added))).anonymity is Anonymity.TRANSPARENT


async def speaks_socks5(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if (await reader.readexactly(3))[0] != 5:
        writer.close()
        return
    writer.write(b"\x05\x00")
    head = await reader.readexactly(4)
    size = 4 if head[3] == 1 else (await reader.readexactly(1))[0]
    name, there = await reader.readexactly(size), int.from_bytes(await reader.readexactly(2), "big")
    host = ".".join(map(str, name)) if head[3] == 1 else name.decode()
    source, sink = await asyncio.open_connection(host, there, local_addr=(EXIT, 0))
    writer.write(b"\x05\x00\x00\x01" + bytes(6))
    await both_ways(reader, writer, source, sink)
    sink.close()


@pytest.mark.parametrize(("detect", "first", "reason", "spoken"), [
    (True, True, Reason.OTHER_PROTOCOL, Protocol.SOCKS5),
    (True, False, Reason.CLOSED, None),
    (False, True, Reason.CLOSED, None),
])  # fmt: skip
def test_a_proxy_that_speaks_another_protocol_is_told_once_where_that_is_wanted(
    tmp_path: Path, detect: bool, first: bool, reason: Reason, spoken: Protocol | None
) -> None:
    async def ask(this: Court) -> Check:
        async with await asyncio.start_server(speaks_socks5, "127.0.0.1", 0) as server:
            bench = replace(this.bench, detect=detect)
            listed = Proxy(Protocol.HTTP, "127.0.0.1", port(server))
            return await pipeline.check(listed, bench, now=NOW, first=first)

    found = in_court(tmp_path, ask)

    assert (found.verdict, found.reason, found.spoken) == (Verdict.FAILED, reason, spoken)
