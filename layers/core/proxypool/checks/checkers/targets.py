"""How do the operator's target sites answer this proxy?"""

from __future__ import annotations

from typing import Final

from proxypool.checks.check import TargetVerdict
from proxypool.checks.context import Place, Probe, StageFailed
from proxypool.checks.rule import Rule, judge_answer
from proxypool.checks.way import ask
from proxypool.network.tunnel import WireError

MAX_PAGE_BYTES: Final = 1_048_576


async def targets(probe: Probe) -> None:
    """One verdict per rule; a failure here is the target's affair and says nothing of the proxy elsewhere."""
    for rule in probe.bench.rules:
        probe.targets[rule.host] = TargetVerdict.FAILED  # unless an answer comes
        if rule.scheme == "http" or probe.https is not False:
            probe.targets[rule.host] = await _verdict(probe, rule)


async def _verdict(probe: Probe, rule: Rule) -> TargetVerdict:
    place = Place(scheme=rule.scheme, host=rule.host, port=rule.port)
    try:
        answer = await ask(probe, place, rule.path, max_body_bytes=MAX_PAGE_BYTES)
    except (StageFailed, WireError):
        return TargetVerdict.FAILED
    return judge_answer(rule, answer.status, answer.body)
