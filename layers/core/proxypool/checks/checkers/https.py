"""Does the proxy carry HTTPS (CONNECT) with the target's own certificate?"""

from __future__ import annotations

from proxypool.checks import judge
from proxypool.checks.check import Reason
from proxypool.checks.checkers.http import read_answer
from proxypool.checks.checkers.reachable import reachable
from proxypool.checks.context import AGENT, Probe, StageFailed
from proxypool.network.tunnel import ask_secure


async def https(probe: Probe) -> None:
    """Sets `https`. There is no way around verification."""
    place = probe.bench.judge_https
    if place is None:
        return
    await reachable(probe)
    if probe.wire is None:
        raise StageFailed(Reason.CLOSED)
    nonce = judge.new_nonce()
    answer = await ask_secure(probe.wire, probe.hop, place.url(f"/?nonce={nonce}"), agent=AGENT)
    try:
        read_answer(probe.bench.key, answer, nonce)
    except judge.Tampered as error:
        raise StageFailed(Reason.TAMPERED) from error
    probe.https = True
