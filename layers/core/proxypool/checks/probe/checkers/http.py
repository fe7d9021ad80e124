"""Stage `http`: a plain HTTP request through the proxy to the judge, and the judge's answer."""

from __future__ import annotations

from proxypool.checks.check import Reason
from proxypool.checks.judge.answer import InvalidAnswer, Observation, TamperedAnswer, new_nonce, parse_answer
from proxypool.checks.judge.echo import parse_echo
from proxypool.checks.probe.context import Judge, Probe, StageFailed
from proxypool.checks.probe.request import get_via_proxy, random_path, reason_for_status
from proxypool.network.tunnel import Response, TransportError

_LIKE_JUDGE_DOWN = frozenset({Reason.TIMEOUT, Reason.CLOSED, Reason.CONNECT_REFUSED, Reason.BAD_STATUS})


async def check_http(probe: Probe) -> None:
    """Stores the judge's observation. An altered body sets `tampered` and does not fail this stage."""
    nonce = new_nonce()
    try:
        response = await get_via_proxy(probe, probe.judge.http, random_path(probe.judge.http, nonce=nonce))
        probe.observation = parse_response(probe.judge, response, nonce)
    except TamperedAnswer:
        probe.tampered = True
    except (StageFailed, TransportError, TimeoutError) as error:
        await raise_if_judge_down(probe, probe.judge, error)
        raise
    finally:
        probe.close()


def parse_response(judge: Judge, response: Response, nonce: str) -> Observation:
    """The judge's observation in its response; raises TamperedAnswer, or StageFailed with the reason."""
    if reason := reason_for_status(response.status):
        raise StageFailed(reason, status=response.status)
    try:
        if judge.is_echo:
            return parse_echo(response.body, nonce)
        return parse_answer(judge.key, response.body, nonce)
    except TamperedAnswer:
        raise
    except InvalidAnswer as error:
        raise StageFailed(Reason(error.reason)) from error


async def raise_if_judge_down(probe: Probe, judge: Judge, error: StageFailed | TransportError | TimeoutError) -> None:
    """Probes the judge directly if its outage would look like this error; raises StageFailed(JUDGE_DOWN) if it is down."""
    if isinstance(error, StageFailed):
        status = error.status or 0
        suspect = error.reason in _LIKE_JUDGE_DOWN and (status == 429 or status >= 500)
    else:
        suspect = isinstance(error, TimeoutError) or Reason(error.fault.value) in _LIKE_JUDGE_DOWN
    if suspect and not await probe.context.is_judge_up(judge):
        raise StageFailed(Reason.JUDGE_DOWN) from error
