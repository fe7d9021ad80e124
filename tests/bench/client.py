"""`python -m tests.bench.client NAME FOLDER [options]`: checks every proxy of the farm, prints verdicts and costs as JSON.

NAME: `raw` or `streams_tls` (floors.py), or the production pipeline: `plain` (most rechecks of a stable proxy), `secure` (only its
HTTPS stage), `checker` (all stages, as in a first check).
It uses only what a list contains: protocol, host, port, user, password.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proxypool.checks.check import Check, Verdict
from proxypool.checks.judge import judges
from proxypool.checks.probe import pipeline
from proxypool.clock import now
from proxypool.config.settings import Settings
from proxypool.network import loop
from proxypool.proxies.proxy import Protocol, Proxy

from tests.bench import floors
from tests.bench.floors import Ask
from tests.bench.memory import peak_megabytes

LAG_EVERY_SECONDS = 0.01


PLAIN_STAGES = ("http", "anonymity", "exit", "integrity", "integrity_https", "targets")  # skipped by `secure`


async def checker(manifest: dict[str, Any], key: bytes, seconds: float, *, name: str) -> Ask:
    """The production pipeline, with `seconds` per stage and twice as many per check, as in the default settings."""
    full = name != "plain"
    config = Settings(
        judge_url=manifest["judge_url"], judge_https_url=manifest["judge_https_url"], judge_ca_file=manifest["ca_file"],
        allow_loopback=True, detect_protocols=True, check_skip=PLAIN_STAGES if name == "secure" else (),
        check_connect_seconds=min(seconds, Settings().check_connect_seconds),
        check_stage_seconds=seconds, check_total_seconds=2 * seconds,
    )  # fmt: skip
    context = await judges.probe_judges(judges.build_context(config, key))
    assert context is not None, "the judge is down"

    async def ask(proxy: Proxy) -> dict[str, Any]:
        return verdict(await pipeline.check(proxy, context, now=now(), full=full, is_first=full))

    return ask


def verdict(check: Check) -> dict[str, Any]:
    """A check in the format of the farm's truth."""
    return {"status": "active" if check.verdict is Verdict.PASSED else "dead", "anonymity": check.anonymity,
            "exit_ip": check.exit_ip, "reason": check.reason, "https": check.https, "tampered": check.tampered}  # fmt: skip


async def measured(ask: Ask, proxies: list[Proxy], *, at_once: int, passes: int) -> dict[str, Any]:
    """The verdicts in the proxies' order (all passes), with CPU, wall time, loop lag and peak memory."""
    await asyncio.gather(ask(proxies[0]), return_exceptions=True)  # warm-up: one-time costs are not measured
    verdicts: list[Any] = [None] * len(proxies) * passes
    jobs = iter(enumerate(proxies * passes))
    lags: list[float] = []
    sampler = asyncio.create_task(sample_lag(lags))
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work(ask, jobs, verdicts) for _ in range(at_once)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    sampler.cancel()
    peak = peak_megabytes()
    return {"verdicts": verdicts, "wall_seconds": wall, "cpu_ms": cpu / len(verdicts) * 1000, "rss_mb": peak,
            "lag_p99_ms": 1000 * sorted(lags or [0.0])[len(lags) * 99 // 100]}  # fmt: skip


async def work(ask: Ask, jobs: Iterator[tuple[int, Proxy]], verdicts: list[Any]) -> None:
    """One of the workers that take proxies in turn."""
    for index, proxy in jobs:
        try:
            verdicts[index] = await ask(proxy)
        except (OSError, EOFError, asyncio.IncompleteReadError, ValueError):  # errors of the floors
            verdicts[index] = {"status": "dead"}


async def sample_lag(lags: list[float]) -> None:
    """Records the delay of each short sleep."""
    while True:
        started = time.perf_counter()
        await asyncio.sleep(LAG_EVERY_SECONDS)
        lags.append(time.perf_counter() - started - LAG_EVERY_SECONDS)


async def ask_all(options: argparse.Namespace) -> dict[str, Any]:
    """Runs one client over the farm of the folder."""
    manifest = json.loads((options.folder / "farm.json").read_text())
    proxies = [
        Proxy(Protocol(p["protocol"]), p["host"], p["port"], p["user"], p["password"]) for p in manifest["proxies"]
    ]
    if options.name in FLOORS:
        ask = FLOORS[options.name](manifest)
    else:
        key = (options.folder / "key").read_bytes()
        ask = await checker(manifest, key, options.seconds, name=options.name)
    return await measured(ask, proxies, at_once=options.at_once, passes=options.passes)


FLOORS = {"raw": floors.raw, "streams_tls": floors.streams_tls}


def main() -> None:
    """Runs floors on asyncio's own loop, and the checker on the loop of production."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*FLOORS, "plain", "secure", "checker"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    run = asyncio.run if options.name in FLOORS else loop.run
    print(json.dumps(run(ask_all(options))))


if __name__ == "__main__":
    main()
