"""Does the proxy carry HTTPS (CONNECT) with the target's own certificate?"""

from __future__ import annotations

from proxypool.checks import judge
from proxypool.checks.check import Reason
from proxypool.checks.checkers.http import read_answer, refused
from proxypool.checks.checkers.reachable import reachable
from proxypool.checks.context import AGENT, Probe, StageFailed
from proxypool.network.tunnel import connect_to, get


async def https(probe: Probe) -> None:
    """Sets `https`. There is no way around verification."""
    place = probe.bench.judge_https
    if place is None:
        return
    await reachable(probe)
    if probe.wire is None:
        raise StageFailed(Reason.CLOSED)
    if reason := refused(await probe.wire.tunnel(connect_to(place.authority, login=probe.login))):
        raise StageFailed(reason)
    await probe.wire.secure(probe.bench.tls, place.host)
    nonce = judge.new_nonce()
    answer = await probe.wire.ask(get(f"/?nonce={nonce}", place.authority, agent=AGENT))
    try:
        read_answer(probe.bench.key, answer, nonce)
    except judge.Tampered as error:
        raise StageFailed(Reason.TAMPERED) from error
    probe.https = True
