"""The checkers in order, with early exit and three limits of time: to connect, per stage, in all."""

from __future__ import annotations

import time
from datetime import datetime

from proxypool.checks import blame
from proxypool.checks.check import Check, Reason, Verdict
from proxypool.checks.checkers import STAGES, Stage
from proxypool.checks.context import Bench, Probe, StageFailed
from proxypool.network.deadline import Deadline
from proxypool.network.tunnel import WireError
from proxypool.proxies.proxy import Proxy


async def check(proxy: Proxy, bench: Bench, *, now: datetime) -> Check:
    """One probe of one proxy. Never raises for what the proxy does."""
    probe = Probe(proxy, bench)
    try:
        async with Deadline(bench.total_seconds):
            return await _stages(probe, now)
    except TimeoutError:
        return _result(probe, now, Reason.TIMEOUT, failed=probe.seen is None)
    finally:
        probe.close()


async def _stages(probe: Probe, now: datetime) -> Check:
    reason: Reason | None = None
    for stage in STAGES:
        reason = await _ask(stage, probe)
        if reason is not None and stage.needed:
            return _result(probe, now, reason, failed=True)
        if probe.tampered:
            break
    return _result(probe, now, Reason.TAMPERED if probe.tampered else reason, failed=False)


async def _ask(stage: Stage, probe: Probe) -> Reason | None:
    started = time.perf_counter()
    try:
        async with Deadline(probe.bench.stage_seconds):
            await stage.ask(probe)
    except StageFailed as failed:
        return failed.reason
    except WireError as error:
        return Reason(error.fault.value)
    except TimeoutError:
        return Reason.TIMEOUT
    finally:
        probe.timings_ms[stage.name] = round((time.perf_counter() - started) * 1000, 1)
    return None


def _result(probe: Probe, now: datetime, reason: Reason | None, *, failed: bool) -> Check:
    seen = probe.seen
    verdict = blame.verdict(reason) if failed and reason else Verdict.PASSED
    return Check(
        proxy_id=probe.proxy.id, checked_at=now, verdict=verdict, reason=reason,
        blame=blame.blame(reason) if reason else None,
        timings_ms=probe.timings_ms, latency_ms=probe.timings_ms.get("http") if verdict is Verdict.PASSED else None,
        exit_ip=seen.peer if seen else None, country=seen.country if seen else None,
        anonymity=probe.anonymity, https=probe.https, signed=bool(seen and seen.signed), tampered=probe.tampered,
    )  # fmt: skip
