"""The farm on real loopback sockets: each kind behaves as declared, with one address per proxy and with one for all."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from proxypool.checks.judge.answer import Observation, TamperedAnswer, parse_answer
from proxypool.local.farm.behavior import has_password, read_request
from proxypool.local.farm.exits import loopback_address
from proxypool.local.farm.kinds import KINDS, Spec, plan, read_mix
from proxypool.local.farm.server import Farm, serve_farm

KEY = b"the judge's key"
NONCE = "ab" * 16
BOTH_WAYS = pytest.mark.parametrize("own_addresses", [True, False])


@asynccontextmanager
async def a_farm(folder: Path, kinds: list[str], own_addresses: bool) -> AsyncIterator[tuple[Farm, tuple[int, int]]]:
    specs = [
        Spec(kind=KINDS[kind], exit_ip=f"127.66.{own_addresses:d}.{i}", country="de") for i, kind in enumerate(kinds, 1)
    ]
    async with serve_farm(folder, specs, key=KEY, own_addresses=own_addresses) as (farm, ports):
        yield farm, ports


async def ask(farm: Farm, index: int, url: str, folder: Path) -> httpx.Response:
    proxy = farm.specs[index].line(*farm.addresses[index])
    kind = farm.specs[index].kind.name
    trusted = ssl.create_default_context(cafile=folder / "ca.pem")
    async with httpx.AsyncClient(
        proxy=proxy, verify=trusted, timeout=1 if kind == "silent" else 30, trust_env=False
    ) as client:
        return await client.get(url, params={"nonce": NONCE})


async def response_of(folder: Path, kind: str, own_addresses: bool = True, *, https: bool = False) -> httpx.Response:
    async with a_farm(folder, [kind], own_addresses) as (farm, ports):
        url = f"https://127.0.0.1:{ports[1]}/" if https else f"http://127.0.0.1:{ports[0]}/"
        return await ask(farm, 0, url, folder)


def observation(response: httpx.Response) -> Observation:
    return parse_answer(KEY, response.content, NONCE)


@BOTH_WAYS
def test_each_proxy_has_its_own_exit_ip(tmp_path: Path, own_addresses: bool) -> None:
    async def exits() -> set[str]:
        async with a_farm(tmp_path, ["fast"] * 3, own_addresses) as (farm, ports):
            answers = [await ask(farm, i, f"http://127.0.0.1:{ports[0]}/", tmp_path) for i in range(3)]
            return {observation(answer).peer for answer in answers}

    assert asyncio.run(exits()) == {f"127.66.{own_addresses:d}.{i}" for i in (1, 2, 3)}


@BOTH_WAYS
@pytest.mark.parametrize("kind", ["fast", "leaking", "tampering", "password"])
def test_a_tunnel_to_the_judge_is_unaltered_and_verified(tmp_path: Path, kind: str, own_addresses: bool) -> None:
    answer = observation(asyncio.run(response_of(tmp_path, kind, own_addresses, https=True)))

    assert (answer.scheme, answer.country, answer.peer) == ("https", "de", f"127.66.{own_addresses:d}.1")
    assert not {"via", "x-forwarded-for"} & {name for name, _ in answer.headers}


def test_a_leaking_proxy_reveals_the_clients_address(tmp_path: Path) -> None:
    headers = dict(observation(asyncio.run(response_of(tmp_path, "leaking"))).headers)

    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert "via" in headers


def test_a_tampering_proxy_invalidates_the_judges_response(tmp_path: Path) -> None:
    response = asyncio.run(response_of(tmp_path, "tampering"))

    with pytest.raises(TamperedAnswer):
        observation(response)


def test_a_proxy_listed_without_its_password_responds_with_407(tmp_path: Path) -> None:
    assert asyncio.run(response_of(tmp_path, "nopassword")).status_code == 407


@pytest.mark.parametrize(("kind", "error"), [("dead", httpx.ConnectError), ("silent", httpx.ReadTimeout)])
def test_dead_and_silent_proxies_do_not_respond(tmp_path: Path, kind: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        asyncio.run(response_of(tmp_path, kind))


def test_the_farm_connects_to_loopback_only(tmp_path: Path) -> None:
    async def status() -> int:
        async with a_farm(tmp_path, ["fast"], True) as (farm, _):
            return (await ask(farm, 0, "http://192.0.2.1/", tmp_path)).status_code

    assert asyncio.run(status()) == 502
    assert [loopback_address(host) for host in ("127.1.2.3", "judge.test", "example.com", "8.8.8.8")] == [
        "127.1.2.3", "127.0.0.1", None, None,
    ]  # fmt: skip


def test_the_response_to_a_plain_request_announces_that_the_connection_closes(tmp_path: Path) -> None:
    """A client must not reuse a connection that the proxy is about to close, even if the target allowed that."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-")
        await writer.drain()
        writer.write(b"Length: 2\r\n\r\nok")
        writer.close()

    async def response() -> httpx.Response:
        async with (
            a_farm(tmp_path, ["fast"], True) as (farm, _),
            await asyncio.start_server(respond, "127.0.0.1") as server,
        ):
            return await ask(farm, 0, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", tmp_path)

    found = asyncio.run(response())

    assert (found.text, found.headers.get_list("connection")) == ("ok", ["close"])


def test_a_seed_determines_the_plan_and_the_shares_are_exact() -> None:
    mix = read_mix("fast=1,dead=1,slow=2")

    specs = plan(400, mix, seed=7)

    assert specs == plan(400, mix, seed=7)
    assert specs != plan(400, mix, seed=8)
    assert Counter(spec.kind.name for spec in specs) == {"fast": 100, "dead": 100, "slow": 200}
    assert len({spec.exit_ip for spec in specs}) == 400


def test_an_unknown_kind_is_an_error_with_its_name() -> None:
    with pytest.raises(ValueError, match="unknown kind: green"):
        read_mix("green=1")


def test_the_manifest_has_the_correct_result_for_each_kind() -> None:
    entries = [Spec(kind=kind, exit_ip="127.64.0.1", country="de").entry("h", 1) for kind in KINDS.values()]

    truths = {entry["kind"]: (entry["truth"]["status"], entry["truth"]["reason"]) for entry in entries}

    assert truths["fast"] == ("active", None)
    assert truths["tampering"] == ("active", "tampered")
    assert truths["nopassword"] == ("dead", "credentials_refused")
    assert truths.keys() == KINDS.keys()
    assert json.dumps(entries)


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1", b"GET https://a/ HTTP/1.1", b"nonsense", b"CONNECT a:b HTTP/1.1"])
def test_other_requests_are_an_error(head: bytes) -> None:
    with pytest.raises(ValueError):
        read_request(head, b"")


def test_a_wrong_password_is_not_accepted() -> None:
    assert not has_password(b"GET / HTTP/1.1\r\nProxy-Authorization: Basic eDp5")
