"""Runs the stages in order, with early exit and three time limits: connect, per stage, total."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from datetime import datetime
from typing import Final

from proxypool.checks.check import Blame, Check, Reason, Verdict
from proxypool.checks.probe.checkers import Stage, stages
from proxypool.checks.probe.context import CheckContext, Probe, StageFailed
from proxypool.checks.rules.blame import blame_for, verdict_for
from proxypool.network.deadline import Deadline
from proxypool.network.tunnel import TransportError
from proxypool.proxies.proxy import Protocol, Proxy

DETECTION_STAGES: Final = ("reachable", "http")
_WRONG_PROTOCOL_REASONS: Final = frozenset({Reason.PROTOCOL, Reason.CLOSED, Reason.TIMEOUT, Reason.TLS_FAILED})


async def check(
    proxy: Proxy,
    context: CheckContext,
    *,
    now: datetime,
    full: bool = True,
    is_first: bool = False,
    allow_private: bool = False,
) -> Check:
    """One probe of one proxy. Never raises for the proxy's behaviour.

    Without `full`, the `full_only` stages are skipped. With `detect_protocols`, a proxy that does not speak its listed
    protocol at its first check (`is_first`) is tried with each other one; `detected_protocol` is the one that works.
    """
    judges = context.judges
    probe = Probe(
        proxy,
        context,
        judges[0] if len(judges) == 1 else secrets.choice(judges),
        full=full,
        allow_private=allow_private,
    )
    result: Check | None = None
    try:
        with Deadline(context.total_seconds):
            result = await _run_stages(probe, now)
            return (
                await _with_detected_protocol(probe, result)
                if context.detect_protocols and is_first and result.reason in _WRONG_PROTOCOL_REASONS
                else result
            )
    except TimeoutError:  # during protocol detection: the result for the listed protocol is valid
        return result or _result(probe, now, Reason.TIMEOUT, failed=probe.observation is None)
    finally:
        probe.close()


async def _run_stages(probe: Probe, now: datetime) -> Check:
    reason: Reason | None = None
    for stage in stages():
        if (stage.full_only and not probe.full) or stage.name in probe.context.skipped_stages:
            continue
        failure = await _run_stage(stage, probe)
        if failure is not None and stage.required:
            return _result(probe, now, failure, failed=True)
        reason = reason or failure
        if probe.tampered:
            break
    return _result(probe, now, Reason.TAMPERED if probe.tampered else reason, failed=False)


async def _run_stage(stage: Stage, probe: Probe) -> Reason | None:
    """The reason why the stage failed; None if it passed. Stores its duration in the probe."""
    started = time.perf_counter()
    try:
        if stage.uses_timeout:
            with Deadline(probe.context.stage_seconds if stage.timeout_seconds is None else stage.timeout_seconds):
                await stage.run(probe)
        else:
            await stage.run(probe)
    except StageFailed as failed:
        return failed.reason
    except TransportError as error:
        return Reason(error.fault.value)
    except TimeoutError:
        return Reason.TIMEOUT
    finally:
        probe.timings_ms[stage.name] = round((time.perf_counter() - started) * 1000, 1)
    return None


async def _with_detected_protocol(probe: Probe, result: Check) -> Check:
    """The check with `detected_protocol` and OTHER_PROTOCOL if the proxy speaks another protocol, else as it is."""
    for protocol in Protocol:
        if protocol is not probe.proxy.protocol and await _speaks_protocol(probe, protocol):
            return replace(
                result,
                reason=Reason.OTHER_PROTOCOL,
                blame=Blame.PROXY,
                verdict=Verdict.FAILED,
                detected_protocol=protocol,
            )
    return result


async def _speaks_protocol(probe: Probe, protocol: Protocol) -> bool:
    other_probe = Probe(
        probe.proxy._replace(protocol=protocol),
        probe.context,
        probe.judge,
        address=probe.address,
        allow_private=probe.allow_private,
    )
    try:
        with Deadline(probe.context.connect_seconds):
            for stage in stages():
                if stage.name in DETECTION_STAGES and await _run_stage(stage, other_probe) is not None:
                    return False
    except TimeoutError:
        return False
    finally:
        other_probe.close()
    return other_probe.observation is not None


def _result(probe: Probe, now: datetime, reason: Reason | None, *, failed: bool) -> Check:
    observation = probe.observation
    verdict = verdict_for(reason) if failed and reason else Verdict.PASSED
    return Check(
        proxy_id=probe.proxy.id, checked_at=now, verdict=verdict, reason=reason,
        blame=blame_for(reason) if reason else None,
        timings_ms=probe.timings_ms, latency_ms=probe.timings_ms.get("http") if verdict is Verdict.PASSED else None,
        exits=tuple(probe.exits), country=observation.country if observation else None, region=observation.region if observation else None,
        asn=observation.asn if observation else None, anonymity=probe.anonymity, basis=probe.basis, https=probe.https,
        signed=bool(observation and observation.signed), tampered=probe.tampered, targets=probe.targets, full=probe.full,
    )  # fmt: skip
