"""Does the proxy carry HTTPS (CONNECT) with the judge's own certificate?"""

from __future__ import annotations

from dataclasses import replace

from proxypool.checks import judge
from proxypool.checks.check import Reason
from proxypool.checks.checkers.exit import note_exit
from proxypool.checks.checkers.http import read_answer
from proxypool.checks.context import Probe, StageFailed
from proxypool.checks.way import ask, path


async def https(probe: Probe) -> None:
    """Sets `https`, and the exit address by this leg. There is no way around verification."""
    place = probe.judge.secure
    if place is None:
        return
    probe.https = False
    nonce = judge.new_nonce()
    answer = await ask(probe, place, path(place, nonce=nonce))
    try:
        seen = read_answer(probe.judge, answer, nonce)
    except judge.Tampered as error:
        raise StageFailed(Reason.TAMPERED) from error
    note_exit(probe, replace(seen, headers=probe.seen.headers if probe.seen else ()))
    probe.https = True
