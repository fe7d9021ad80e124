"""`python -m tests.bench.client raw|checker FOLDER`: asks every proxy of the farm once, prints verdicts and costs.

It is given the list's facts alone: host, port, user, password. The truth stays with the rig.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from proxypool.checks import direct, pipeline
from proxypool.checks.check import Check, Reason, Verdict
from proxypool.clock import now
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.settings import Settings

AT_ONCE = 200
LAG_EVERY_SECONDS = 0.01
NONCE = "0" * 32

Ask = Callable[[Proxy], Awaitable[dict[str, Any]]]


class RawClient(asyncio.Protocol):
    """The floor: writes one request, reads to the end."""

    def __init__(self, request: bytes) -> None:
        self._request, self._received = request, b""
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asks."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Collects."""
        self._received += data

    def connection_lost(self, _: Exception | None) -> None:
        """Has the answer."""
        if not self.done.done():
            self.done.set_result(self._received)


def raw(judge_url: str) -> Ask:
    """One HTTP request through the proxy, nothing verified."""
    request = f"GET {judge_url}?nonce={NONCE} HTTP/1.1\r\nHost: judge.test\r\nConnection: close\r\n\r\n".encode()

    async def ask(proxy: Proxy) -> dict[str, Any]:
        _, client = await asyncio.get_running_loop().create_connection(
            lambda: RawClient(request), proxy.host, proxy.port
        )
        return {"status": "active" if b" 200 " in await client.done else "dead"}

    return ask


async def checker(manifest: dict[str, Any], key: bytes) -> Ask:
    """The production pipeline."""
    config = Settings(
        judge_url=manifest["judge_url"], judge_https_url=manifest["judge_https_url"],
        judge_ca_file=manifest["ca_file"], allow_loopback=True,
        check_connect_seconds=2, check_stage_seconds=3, check_total_seconds=6,
    )  # fmt: skip
    bench = await direct.introduced(direct.bench(config, key))
    assert bench is not None, "the judge is down"

    async def ask(proxy: Proxy) -> dict[str, Any]:
        return verdict(await pipeline.check(proxy, bench, now=now()))

    return ask


def verdict(check: Check) -> dict[str, Any]:
    """A check in the words of the farm's truth."""
    failure = (
        {Reason.TAMPERED: "tampered", Reason.CREDENTIALS: "credentials"}.get(check.reason) if check.reason else None
    )
    passed = check.verdict is Verdict.PASSED and not check.tampered
    return {"status": "active" if passed else "dead", "anonymity": check.anonymity, "exit_ip": check.exit_ip,
            "failure": failure}  # fmt: skip


async def measured(ask: Ask, proxies: list[Proxy]) -> dict[str, Any]:
    """The verdicts in the proxies' order, with CPU, wall time, loop lag and peak memory."""
    places, lags = asyncio.Semaphore(AT_ONCE), [0.0]

    async def one(proxy: Proxy) -> dict[str, Any]:
        async with places:
            return await ask(proxy)

    sampler = asyncio.create_task(sample_lag(lags))
    wall, cpu = time.perf_counter(), time.process_time()
    verdicts = await asyncio.gather(*map(one, proxies))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    sampler.cancel()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return {"verdicts": verdicts, "wall_seconds": wall, "cpu_seconds": cpu, "rss_mb": peak,
            "lag_p99_ms": 1000 * sorted(lags)[len(lags) * 99 // 100]}  # fmt: skip


async def sample_lag(lags: list[float]) -> None:
    """Notes by how much each short sleep overslept."""
    while True:
        started = time.perf_counter()
        await asyncio.sleep(LAG_EVERY_SECONDS)
        lags.append(time.perf_counter() - started - LAG_EVERY_SECONDS)


async def main(name: str, folder: Path) -> None:
    """Runs one client over the farm of this folder."""
    manifest = json.loads((folder / "farm.json").read_text())
    proxies = [
        Proxy(protocol=Protocol.HTTP, host=p["host"], port=p["port"], username=p["user"], password=p["password"])
        for p in manifest["proxies"]
    ]
    key = (folder / "key").read_bytes()
    ask = raw(manifest["judge_url"]) if name == "raw" else await checker(manifest, key)
    print(json.dumps(await measured(ask, proxies)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
