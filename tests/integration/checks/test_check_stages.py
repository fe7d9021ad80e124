"""The stages after the first request, with real judges: HTTPS, integrity, exits, targets, several judges."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from proxypool.checks.check import Blame, Check, JudgeKind, Reason, TargetVerdict, Verdict
from proxypool.checks.judge import judges as direct
from proxypool.checks.probe import pipeline
from proxypool.checks.probe.checkers import stages
from proxypool.checks.probe.context import Endpoint
from proxypool.checks.rules.target import parse_rule
from proxypool.config.settings import Settings
from proxypool.local.farm.judge_server import Judge, serve_judge
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy

from tests.support.builders import NOW
from tests.support.proxies import (
    EXIT,
    KEY,
    Behaviour,
    JudgeServers,
    both_ways,
    certificates_in,
    injects_into,
    judge_servers,
    port,
    proxy,
    response,
    serve,
)  # fmt: skip

_T = TypeVar("_T")


def with_judges(folder: Path, run_checks: Callable[[JudgeServers], Awaitable[_T]], **options: object) -> _T:
    async def run() -> _T:
        async with judge_servers(folder, **options) as servers:  # type: ignore[arg-type]
            return await run_checks(servers)

    return asyncio.run(run())


def test_an_honest_proxy_passes_every_stage(tmp_path: Path) -> None:
    result = with_judges(tmp_path, lambda servers: servers.check(proxy()))

    assert (result.verdict, result.reason, result.https, result.tampered) == (Verdict.PASSED, None, True, False)
    assert (result.exit_ip, result.signed, result.anonymity, result.basis) == (
        EXIT,
        True,
        Anonymity.ELITE,
        JudgeKind.RAW,
    )
    assert list(result.timings_ms) == [stage.name for stage in stages()]


def test_a_check_that_is_not_full_runs_only_the_first_stages(tmp_path: Path) -> None:
    result = with_judges(tmp_path, lambda servers: servers.check(proxy(), full=False))

    assert (result.verdict, result.https, result.anonymity) == (Verdict.PASSED, None, Anonymity.ELITE)
    assert list(result.timings_ms) == ["reachable", "http", "anonymity", "exit"]


@pytest.mark.parametrize("judges", [1, 2])
def test_a_proxy_that_is_honest_only_to_the_judge_is_detected_by_the_canary_page(tmp_path: Path, judges: int) -> None:
    """Inputs 41, 43; case 4: it alters web pages but not the judge's JSON."""
    result = with_judges(
        tmp_path, lambda servers: servers.check(proxy(alter=injects_into(b"text/html"))), judges=judges
    )

    assert (result.verdict, result.reason, result.tampered) == (Verdict.PASSED, Reason.TAMPERED, True)


def test_adding_a_via_header_is_not_tampering(tmp_path: Path) -> None:
    """Case 4."""
    result = with_judges(tmp_path, lambda servers: servers.check(proxy(add=b"Via: 1.1 squid\r\n")))

    assert (result.tampered, result.anonymity, result.reason) == (False, Anonymity.ANONYMOUS, None)


def test_tls_interception_of_one_host_resets_https(tmp_path: Path) -> None:
    """Input 38: each check requests a canary page from another host than its judge's."""

    async def run_checks(servers: JudgeServers) -> list[Check]:
        theirs = certificates_in(tmp_path / "theirs").server_context()
        async with serve_judge(Judge(key=KEY), port=0, context=theirs) as (_, middle):
            return [await servers.check(proxy(intercepts={servers.secure[0]: middle})) for _ in range(3)]

    checks = with_judges(tmp_path, run_checks, judges=2)

    assert [(result.https, result.reason) for result in checks] == [(False, Reason.TLS_INTERCEPT)] * 3


@pytest.mark.parametrize(("body", "tampered"), [(b"never changes", False), (b"never changed", True)])
def test_a_page_of_another_host_can_be_a_canary_page(tmp_path: Path, body: bytes, tampered: bool) -> None:
    """Input 38: the operator configures the digest."""

    async def run_checks(servers: JudgeServers) -> Check:
        async def page(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
            writer.write(response(body))

        async with await serve(page) as server:
            url = f"http://127.0.0.1:{port(server)}/page"
            digest = hashlib.sha256(b"never changes").hexdigest()
            settings = Settings(judge_url="http://judge.test/", canary_urls=(f"{url}#{digest}",))
            pages = direct.build_context(settings, KEY).canary_pages
            judges = tuple(replace(judge, has_canary=False) for judge in servers.context.judges)
            return await servers.check(proxy(), canary_pages=pages, judges=judges)

    assert with_judges(tmp_path, run_checks).tampered is tampered


def test_a_canary_page_that_changed_or_is_down_is_not_used(tmp_path: Path) -> None:
    """Input 38: it is requested directly first."""
    digest = hashlib.sha256(b"as it was").hexdigest()

    async def run() -> tuple[int, Check]:
        async def page(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
            writer.write(response(b"changed"))

        async with await serve(page) as server:
            urls = (f"http://127.0.0.1:{port(server)}/#{digest}", f"http://127.0.0.1:9/#{digest}")
            async with judge_servers(tmp_path, canary_urls=urls) as servers:
                return len(servers.context.canary_pages), await servers.check(proxy())

    page_count, result = asyncio.run(run())

    assert (page_count, result.verdict, result.tampered) == (0, Verdict.PASSED, False)


def test_the_exit_of_the_https_request_is_current_and_all_are_stored(tmp_path: Path) -> None:
    """Input 45: a different exit IP for each request is not an error."""
    result = with_judges(tmp_path, lambda servers: servers.check(proxy(exits=("127.0.0.7", "127.0.0.8", "127.0.0.9"))))

    assert (result.verdict, result.exit_ip, result.exits) == (Verdict.PASSED, "127.0.0.8", ("127.0.0.7", "127.0.0.8"))


@pytest.mark.parametrize("body", [b"<html>please log in", b'{"err": "limit"}'])
def test_a_ban_at_one_target_does_not_affect_another(tmp_path: Path, body: bytes) -> None:
    """Cases 7, 29: status 200 without the expected text is a ban; a target that is down is not the proxy's fault."""

    def site(answer: bytes) -> Behaviour:
        async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
            writer.write(answer)

        return behave

    async def run_checks(servers: JudgeServers) -> Check:
        async with (
            await serve(site(response(body)), host="127.0.0.2") as shop,
            await serve(site(response(b"the price of news")), host="127.0.0.3") as news,
            await serve(site(response(b"", status="502 Oh")), host="127.0.0.4") as dead,
        ):
            sites = (("127.0.0.2", shop), ("127.0.0.3", news), ("127.0.0.4", dead))
            rules = [{"url": f"http://{host}:{port(server)}/", "contains": ["price"]} for host, server in sites]
            target_rules = tuple(parse_rule(rule, allow_loopback=True) for rule in rules)
            return await servers.check(proxy(), target_rules=target_rules)

    result = with_judges(tmp_path, run_checks)

    assert result.targets == {
        "127.0.0.2": TargetVerdict.BANNED, "127.0.0.3": TargetVerdict.OK, "127.0.0.4": TargetVerdict.FAILED,
    }  # fmt: skip
    assert (result.verdict, result.reason) == (Verdict.PASSED, None)


def test_state_of_a_response_is_not_sent_in_later_requests(tmp_path: Path) -> None:
    """Input 44: each request has a new connection, and nothing from an earlier response."""
    heads: list[bytes] = []

    def alter(head: bytes, answer: bytes) -> bytes:
        heads.append(head)
        wishes = b'Set-Cookie: id=7\r\nStrict-Transport-Security: max-age=99\r\nAlt-Svc: h2=":1"\r\n'
        return answer.replace(b"\r\n", b"\r\n" + wishes, 1)

    async def run_checks(servers: JudgeServers) -> list[Check]:
        return [await servers.check(proxy(alter=alter)) for _ in range(2)]

    checks = with_judges(tmp_path, run_checks)

    assert [result.reason for result in checks] == [None, None]
    assert len(heads) == 4
    assert not any(b"cookie" in head.lower() or b"https://" in head for head in heads)


def test_with_one_of_three_judges_down_the_other_two_are_used(tmp_path: Path) -> None:
    """Case 32."""

    async def run_checks(servers: JudgeServers) -> list[Check]:
        assert [judge.http.port for judge in servers.context.judges] == list(servers.plain)
        return [await servers.check(proxy()) for _ in range(4)]

    checks = with_judges(tmp_path, run_checks, judges=2, down=1)

    assert {result.verdict for result in checks} == {Verdict.PASSED}


@pytest.mark.parametrize(("is_up", "verdict", "blame"), [
    (False, Verdict.INCONCLUSIVE, Blame.JUDGE),
    (True, Verdict.FAILED, Blame.PROXY),
])  # fmt: skip
@pytest.mark.parametrize("status", ["503 Busy", "429 Slow down"])
def test_an_error_status_is_blamed_on_the_judge_unless_it_answers_directly(
    tmp_path: Path, status: str, is_up: bool, verdict: Verdict, blame: Blame
) -> None:
    """Case 32: the judge went down during the batch."""

    async def busy(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        writer.write(response(b"", status=status))

    async def run_checks(servers: JudgeServers) -> Check:
        judge = servers.context.judges[0]
        judge = judge if is_up else replace(judge, http=Endpoint.from_url("http://127.0.0.1:9/"))
        return await servers.check(busy, judges=(judge,), is_judge_up=direct.JudgeHealth(servers.context).is_up)

    result = with_judges(tmp_path, run_checks)

    assert (result.verdict, result.blame) == (verdict, blame)


def test_an_echo_service_is_used_if_configured_and_marked_unsigned() -> None:
    """Input 39: a verdict from an echo service is marked as unsigned."""

    async def echo(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        first, *lines = head.decode().rstrip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        origin = writer.get_extra_info("peername")[0]
        url = "http://echo.test" + first.split(" ")[1]
        writer.write(response(json.dumps({"headers": headers, "origin": origin, "url": url}).encode()))

    async def run() -> Check:
        async with (
            await serve(echo) as echo_server,
            await serve(proxy(add=b"X-Forwarded-For: 127.0.0.1\r\n")) as server,
        ):
            settings = Settings(
                judge_url="none", judge_echo_urls=(f"http://127.0.0.1:{port(echo_server)}/get",), allow_loopback=True
            )
            context = await direct.probe_judges(direct.build_context(settings, None))
            assert context is not None
            return await pipeline.check(Proxy(Protocol.HTTP, "127.0.0.1", port(server)), context, now=NOW)

    result = asyncio.run(run())

    assert (result.verdict, result.exit_ip, result.signed, result.basis) == (
        Verdict.PASSED,
        EXIT,
        False,
        JudgeKind.ECHO,
    )
    assert result.anonymity is Anonymity.TRANSPARENT


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
    assert with_judges(tmp_path, lambda servers: servers.check(proxy(add=added))).anonymity is Anonymity.TRANSPARENT


async def socks5_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if (await reader.readexactly(3))[0] != 5:
        writer.close()
        return
    writer.write(b"\x05\x00")
    head = await reader.readexactly(4)
    size = 4 if head[3] == 1 else (await reader.readexactly(1))[0]
    name, target_port = await reader.readexactly(size), int.from_bytes(await reader.readexactly(2), "big")
    host = ".".join(map(str, name)) if head[3] == 1 else name.decode()
    source, sink = await asyncio.open_connection(host, target_port, local_addr=(EXIT, 0))
    writer.write(b"\x05\x00\x00\x01" + bytes(6))
    await both_ways(reader, writer, source, sink)
    sink.close()


@pytest.mark.parametrize(("detect", "first", "reason", "detected"), [
    (True, True, Reason.OTHER_PROTOCOL, Protocol.SOCKS5),
    (True, False, Reason.CLOSED, None),
    (False, True, Reason.CLOSED, None),
])  # fmt: skip
def test_the_protocol_is_detected_at_the_first_check_if_enabled(
    tmp_path: Path, detect: bool, first: bool, reason: Reason, detected: Protocol | None
) -> None:
    async def run_checks(servers: JudgeServers) -> Check:
        async with await asyncio.start_server(socks5_server, "127.0.0.1", 0) as server:
            context = replace(servers.context, detect_protocols=detect)
            listed = Proxy(Protocol.HTTP, "127.0.0.1", port(server))
            return await pipeline.check(listed, context, now=NOW, is_first=first)

    result = with_judges(tmp_path, run_checks)

    assert (result.verdict, result.reason, result.detected_protocol) == (Verdict.FAILED, reason, detected)
