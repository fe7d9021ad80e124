"""Stage `targets`: requests to the operator's target sites through the proxy."""

from __future__ import annotations

from typing import Final

from proxypool.checks.check import TargetVerdict
from proxypool.checks.probe.context import Endpoint, Probe, StageFailed
from proxypool.checks.probe.request import get_via_proxy
from proxypool.checks.rules.target import TargetRule, target_verdict
from proxypool.network.tunnel import TransportError

MAX_PAGE_BYTES: Final = 1_048_576


async def check_targets(probe: Probe) -> None:
    """Sets one verdict per target rule. A failure concerns that target only, not the proxy in general."""
    for rule in probe.context.target_rules:
        probe.targets[rule.host] = TargetVerdict.FAILED  # stays if the stage times out
        if rule.scheme == "http" or probe.https is not False:
            probe.targets[rule.host] = await _verdict(probe, rule)


async def _verdict(probe: Probe, rule: TargetRule) -> TargetVerdict:
    endpoint = Endpoint(scheme=rule.scheme, host=rule.host, port=rule.port)
    try:
        response = await get_via_proxy(probe, endpoint, rule.path, max_body_bytes=MAX_PAGE_BYTES)
    except (StageFailed, TransportError):
        return TargetVerdict.FAILED
    return target_verdict(rule, response.status, response.body)
