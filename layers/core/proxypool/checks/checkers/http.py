"""Does a plain request come through unaltered, from where, and what does it show of us?"""

from __future__ import annotations

import ipaddress

from proxypool.checks import judge
from proxypool.checks.anonymity import anonymity
from proxypool.checks.check import Reason
from proxypool.checks.context import AGENT, Probe, StageFailed
from proxypool.network.address import refusal
from proxypool.network.tunnel import Response, ask_plain


async def http(probe: Probe) -> None:
    """Finds the exit address and the anonymity; a body that was altered is noted, and is no failure of this stage."""
    if probe.wire is None:
        raise StageFailed(Reason.CLOSED)
    nonce = judge.new_nonce()
    url = probe.bench.judge.url(f"/?nonce={nonce}")
    answer = await ask_plain(probe.wire, probe.hop, url, agent=AGENT)
    probe.close()
    try:
        seen = read_answer(probe.bench.key, answer, nonce)
    except judge.Tampered:
        probe.tampered = True
        return
    if seen.peer in probe.bench.own or not _is_exit(seen.peer, probe.bench.allow_loopback):
        raise StageFailed(Reason.LOOP)
    probe.seen = seen
    probe.anonymity = anonymity(seen.headers, own=probe.bench.own, direct=probe.bench.direct)


def read_answer(key: bytes | None, answer: Response, nonce: str) -> judge.Seen:
    """What the judge saw; raises Tampered, or StageFailed with the reason."""
    if reason := refused(answer.status):
        raise StageFailed(reason)
    try:
        return judge.read(key, answer.body, nonce)
    except judge.Tampered:
        raise
    except judge.JudgeRefusal as refusal_:
        raise StageFailed(Reason(refusal_.reason)) from refusal_


def refused(status: int) -> Reason | None:
    """The reason that a status other than 200 stands for. A redirect is an outcome and is never followed."""
    if status == 200:
        return None
    if status == 407:
        return Reason.CREDENTIALS
    return Reason.REDIRECT if 300 <= status < 400 else Reason.BAD_STATUS


def _is_exit(address: str, allow_loopback: bool) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return not refusal(address, allow_loopback=allow_loopback)
