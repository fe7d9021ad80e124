"""Does the proxy carry a plain request to the judge, and the judge's answer back?"""

from __future__ import annotations

from proxypool.checks import judge
from proxypool.checks.check import Reason
from proxypool.checks.context import Judge, Probe, StageFailed
from proxypool.checks.echo import read_echo
from proxypool.checks.way import ask, path, refused
from proxypool.network.tunnel import Response, WireError

_IF_THE_JUDGE_WERE_DOWN = frozenset({Reason.TIMEOUT, Reason.CLOSED, Reason.CONNECT_REFUSED, Reason.BAD_STATUS})


async def http(probe: Probe) -> None:
    """Notes what the judge saw; a body that was altered is noted, and is no failure of this stage."""
    nonce = judge.new_nonce()
    try:
        answer = await ask(probe, probe.judge.plain, path(probe.judge.plain, nonce=nonce))
        probe.seen = read_answer(probe.judge, answer, nonce)
    except judge.Tampered:
        probe.tampered = True
    except (StageFailed, WireError, TimeoutError) as error:
        await put_to(probe, probe.judge, error)
        raise
    finally:
        probe.close()


def read_answer(of: Judge, answer: Response, nonce: str) -> judge.Seen:
    """What the judge saw; raises Tampered, or StageFailed with the reason."""
    if reason := refused(answer.status):
        raise StageFailed(reason, status=answer.status)
    try:
        return read_echo(answer.body, nonce) if of.is_echo else judge.read(of.key, answer.body, nonce)
    except judge.Tampered:
        raise
    except judge.JudgeRefusal as refusal:
        raise StageFailed(Reason(refusal.reason)) from refusal


async def put_to(probe: Probe, one: Judge, error: StageFailed | WireError | TimeoutError) -> None:
    """Where a judge that is down would look like this error, it is asked directly; raises StageFailed where it is down."""
    if isinstance(error, StageFailed):
        status = error.status or 0
        suspect = error.reason in _IF_THE_JUDGE_WERE_DOWN and (status == 429 or status >= 500)
    else:
        suspect = isinstance(error, TimeoutError) or Reason(error.fault.value) in _IF_THE_JUDGE_WERE_DOWN
    if suspect and not await probe.bench.is_up(one):
        raise StageFailed(Reason.JUDGE_DOWN) from error
