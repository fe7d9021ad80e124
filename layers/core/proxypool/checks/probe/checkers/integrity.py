"""Stages `integrity` and `integrity_https`: a page with a known digest, requested through the proxy.

The page is a judge's canary page under a random path, or a page that the operator configures, on another host than the
check's own judge if possible. This detects a proxy that is honest only to the judge, or that intercepts TLS for some hosts.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from proxypool.checks.check import Reason
from proxypool.checks.judge.answer import new_nonce
from proxypool.checks.judge.canary import canary_page
from proxypool.checks.probe.checkers.http import raise_if_judge_down
from proxypool.checks.probe.context import Endpoint, Judge, Probe, StageFailed
from proxypool.checks.probe.request import get_via_proxy, random_path, reason_for_status
from proxypool.network.tunnel import TransportError


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPage:
    """A page to request, the SHA-256 of its body in hex, and the judge that serves it (None: the operator's page)."""

    endpoint: Endpoint
    target: str
    sha256: str
    judge: Judge | None = None


async def check_integrity(probe: Probe) -> None:
    """Sets `tampered` if the page differs over plain HTTP. Fails if a page of a judge that is up does not arrive."""
    page = _choose_page(probe, "http")
    if page is None:
        return
    try:
        probe.tampered = not await _is_unaltered(probe, page)
    except (StageFailed, TransportError, TimeoutError) as error:
        if page.judge is not None:  # an operator's page may be down, which cannot be distinguished
            await raise_if_judge_down(probe, page.judge, error)
            raise


async def check_integrity_https(probe: Probe) -> None:
    """Resets `https` to False if the page differs or TLS is intercepted; skipped if the proxy does not carry HTTPS."""
    page = _choose_page(probe, "https") if probe.https else None
    if page is None:
        return
    probe.https = False
    if not await _is_unaltered(probe, page):
        raise StageFailed(Reason.TAMPERED)
    probe.https = True


async def _is_unaltered(probe: Probe, page: ExpectedPage) -> bool:
    response = await get_via_proxy(probe, page.endpoint, page.target)
    if reason := reason_for_status(response.status):
        raise StageFailed(reason, status=response.status)
    return hashlib.sha256(response.body).hexdigest() == page.sha256


def _choose_page(probe: Probe, scheme: str) -> ExpectedPage | None:
    """A random page of this scheme; None if there is none.

    The check's own judge qualifies only for HTTP and only if it is the only judge: TLS that was verified for its host
    cannot be altered.
    """
    context = probe.context
    pages = [
        ExpectedPage(endpoint=page.endpoint, target=page.endpoint.target, sha256=page.sha256)
        for page in context.canary_pages
        if page.endpoint.scheme == scheme
    ]
    for judge in context.judges:
        endpoint = judge.http if scheme == "http" else judge.https
        is_allowed = judge is not probe.judge or (scheme == "http" and len(context.judges) == 1)
        if endpoint is not None and judge.has_canary and is_allowed:
            nonce = new_nonce()
            sha256 = hashlib.sha256(canary_page(judge.key, nonce)).hexdigest()
            target = random_path(endpoint, canary=nonce)
            pages.append(ExpectedPage(endpoint=endpoint, target=target, sha256=sha256, judge=judge))
    return secrets.choice(pages) if pages else None
