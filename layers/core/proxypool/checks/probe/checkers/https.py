"""Stage `https`: an HTTPS request (CONNECT) through the proxy, with the judge's certificate verified."""

from __future__ import annotations

from dataclasses import replace

from proxypool.checks.check import Reason
from proxypool.checks.judge.answer import TamperedAnswer, new_nonce
from proxypool.checks.probe.checkers.exit import record_exit
from proxypool.checks.probe.checkers.http import parse_response
from proxypool.checks.probe.context import Probe, StageFailed
from proxypool.checks.probe.request import get_via_proxy, random_path


async def check_https(probe: Probe) -> None:
    """Sets `https` and the exit IP of the HTTPS request. Verification cannot be switched off."""
    endpoint = probe.judge.https
    if endpoint is None:
        return
    probe.https = False
    nonce = new_nonce()
    response = await get_via_proxy(probe, endpoint, random_path(endpoint, nonce=nonce))
    try:
        observation = parse_response(probe.judge, response, nonce)
    except TamperedAnswer as error:
        raise StageFailed(Reason.TAMPERED) from error
    record_exit(probe, replace(observation, headers=probe.observation.headers if probe.observation else ()))
    probe.https = True
