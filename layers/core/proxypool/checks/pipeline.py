"""The checkers in order, with early exit and three limits of time: to connect, per stage, in all."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from datetime import datetime
from typing import Final

from proxypool.checks import blame
from proxypool.checks.check import Blame, Check, Reason, Verdict
from proxypool.checks.checkers import Stage, stages
from proxypool.checks.context import Bench, Probe, StageFailed
from proxypool.network.deadline import Deadline
from proxypool.network.tunnel import WireError
from proxypool.proxies.proxy import Protocol, Proxy

FIRST_CONTACT: Final = ("reachable", "http")
_MISSPOKEN: Final = frozenset({Reason.PROTOCOL, Reason.CLOSED, Reason.TIMEOUT, Reason.TLS_FAILED})


async def check(
    proxy: Proxy, bench: Bench, *, now: datetime, full: bool = True, first: bool = False, allow_private: bool = False
) -> Check:
    """One probe of one proxy. Never raises for what the proxy does.

    One that is not `full` asks only whether it still carries HTTP, and as whom. With `bench.detect` a proxy that at its
    `first` check does not speak its protocol is tried with the others, once each: `spoken` is the one that works.
    """
    judges = bench.judges
    probe = Probe(
        proxy, bench, judges[0] if len(judges) == 1 else secrets.choice(judges), full=full, allow_private=allow_private
    )
    found: Check | None = None
    try:
        with Deadline(bench.total_seconds):
            found = await _stages(probe, now)
            return await _other(probe, found) if bench.detect and first and found.reason in _MISSPOKEN else found
    except TimeoutError:  # while other protocols are tried, the word about the listed one stands
        return found or _result(probe, now, Reason.TIMEOUT, failed=probe.seen is None)
    finally:
        probe.close()


async def _stages(probe: Probe, now: datetime) -> Check:
    reason: Reason | None = None
    for stage in stages():
        if (stage.full and not probe.full) or stage.name in probe.bench.skip:
            continue
        no = await _ask(stage, probe)
        if no is not None and stage.needed:
            return _result(probe, now, no, failed=True)
        reason = reason or no
        if probe.tampered:
            break
    return _result(probe, now, Reason.TAMPERED if probe.tampered else reason, failed=False)


async def _ask(stage: Stage, probe: Probe) -> Reason | None:
    started = time.perf_counter()
    try:
        if stage.waits:
            with Deadline(probe.bench.stage_seconds if stage.seconds is None else stage.seconds):
                await stage.ask(probe)
        else:
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


async def _other(probe: Probe, found: Check) -> Check:
    """The check, with the other protocol that this proxy speaks, if there is one."""
    for protocol in Protocol:
        if protocol is not probe.proxy.protocol and await _speaks(probe, protocol):
            return replace(
                found, reason=Reason.OTHER_PROTOCOL, blame=Blame.PROXY, verdict=Verdict.FAILED, spoken=protocol
            )
    return found


async def _speaks(probe: Probe, protocol: Protocol) -> bool:
    other = Probe(
        probe.proxy._replace(protocol=protocol),
        probe.bench,
        probe.judge,
        address=probe.address,
        allow_private=probe.allow_private,
    )
    try:
        with Deadline(probe.bench.connect_seconds):
            for stage in stages():
                if stage.name in FIRST_CONTACT and await _ask(stage, other) is not None:
                    return False
    except TimeoutError:
        return False
    finally:
        other.close()
    return other.seen is not None


def _result(probe: Probe, now: datetime, reason: Reason | None, *, failed: bool) -> Check:
    seen = probe.seen
    verdict = blame.verdict(reason) if failed and reason else Verdict.PASSED
    return Check(
        proxy_id=probe.proxy.id, checked_at=now, verdict=verdict, reason=reason,
        blame=blame.blame(reason) if reason else None,
        timings_ms=probe.timings_ms, latency_ms=probe.timings_ms.get("http") if verdict is Verdict.PASSED else None,
        exits=tuple(probe.exits), country=seen.country if seen else None, region=seen.region if seen else None,
        asn=seen.asn if seen else None, anonymity=probe.anonymity, basis=probe.basis, https=probe.https,
        signed=bool(seen and seen.signed), tampered=probe.tampered, targets=probe.targets, full=probe.full,
    )  # fmt: skip
