"""Does a page come through as it is? Asked of the judge's canary and of pages that the operator names, under random paths.

The pages lie on other hosts than the check's own judge where there are any: a proxy that is honest to the judge alone, or
that opens the TLS of some hosts only, shows itself here.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from proxypool.checks import judge
from proxypool.checks.canary import canary
from proxypool.checks.check import Reason
from proxypool.checks.checkers.http import put_to
from proxypool.checks.context import Judge, Place, Probe, StageFailed
from proxypool.checks.way import ask, path, refused
from proxypool.network.tunnel import WireError


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is asked for, the SHA-256 of its body in hex, and the judge that serves it (None: a page of the operator's)."""

    place: Place
    target: str
    digest: str
    judge: Judge | None = None


async def integrity(probe: Probe) -> None:
    """By plain HTTP: another body is tampering. A page of a judge that is up, and does not come through, fails the check."""
    page = _choose(probe, "http")
    if page is None:
        return
    try:
        probe.tampered = not await _is_whole(probe, page)
    except (StageFailed, WireError, TimeoutError) as error:
        if page.judge is not None:  # else: it may be down, and nobody can tell
            await put_to(probe, page.judge, error)
            raise


async def integrity_https(probe: Probe) -> None:
    """By HTTPS, where the proxy carries that: a host whose TLS was opened, or whose page differs, takes `https` away."""
    page = _choose(probe, "https") if probe.https else None
    if page is None:
        return
    probe.https = False
    if not await _is_whole(probe, page):
        raise StageFailed(Reason.TAMPERED)
    probe.https = True


async def _is_whole(probe: Probe, page: Page) -> bool:
    answer = await ask(probe, page.place, page.target)
    if reason := refused(answer.status):
        raise StageFailed(reason, status=answer.status)
    return hashlib.sha256(answer.body).hexdigest() == page.digest


def _choose(probe: Probe, scheme: str) -> Page | None:
    """One page by chance. The check's own judge only by HTTP, and where there is no other: inside of TLS that was verified
    for its host nothing can be altered."""
    known = [one for one in probe.bench.canaries if one.place.scheme == scheme]
    pages = [Page(place=one.place, target=one.place.target, digest=one.digest) for one in known]
    for other in probe.bench.judges:
        place = other.plain if scheme == "http" else other.secure
        is_other = other is not probe.judge or (scheme == "http" and len(probe.bench.judges) == 1)
        if place is not None and other.has_canary and is_other:
            nonce = judge.new_nonce()
            digest = hashlib.sha256(canary(other.key, nonce)).hexdigest()
            pages.append(Page(place=place, target=path(place, canary=nonce), digest=digest, judge=other))
    return secrets.choice(pages) if pages else None
