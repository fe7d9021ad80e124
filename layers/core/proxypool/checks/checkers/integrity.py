"""Does a page come through as it is? Asked of the judge's canary and of pages that the operator names, under random paths.

The pages lie on other hosts than the check's own judge where there are any: a proxy that is honest to the judge alone, or
that opens the TLS of some hosts only, shows itself here.
"""

from __future__ import annotations

import hashlib
import secrets

from proxypool.checks import judge
from proxypool.checks.canary import canary
from proxypool.checks.check import Reason
from proxypool.checks.context import Place, Probe, StageFailed
from proxypool.checks.way import ask, path, refused

Page = tuple[Place, str, str]  # where, the path, the SHA-256 of the body in hex


async def integrity(probe: Probe) -> None:
    """By plain HTTP: another body is tampering. A page that does not come at all fails the check."""
    page = _choose(probe, "http")
    if page is None:
        return
    place, target, digest = page
    answer = await ask(probe, place, target)
    if reason := refused(answer.status):
        raise StageFailed(reason, status=answer.status)
    probe.tampered = hashlib.sha256(answer.body).hexdigest() != digest


async def integrity_https(probe: Probe) -> None:
    """By HTTPS, where the proxy carries that: a host whose TLS was opened, or whose page differs, takes `https` away."""
    page = _choose(probe, "https") if probe.https else None
    if page is None:
        return
    probe.https = False
    place, target, digest = page
    answer = await ask(probe, place, target)
    if reason := refused(answer.status):
        raise StageFailed(reason)
    if hashlib.sha256(answer.body).hexdigest() != digest:
        raise StageFailed(Reason.TAMPERED)
    probe.https = True


def _choose(probe: Probe, scheme: str) -> Page | None:
    """One page by chance; the judge's own only where there is no other."""
    pages: list[Page] = [
        (one.place, one.place.target, one.digest) for one in probe.bench.canaries if one.place.scheme == scheme
    ]
    for other in probe.bench.judges:
        place = other.plain if scheme == "http" else other.secure
        if place is not None and other.has_canary and (other != probe.judge or len(probe.bench.judges) == 1):
            nonce = judge.new_nonce()
            body = canary(other.key, nonce)
            pages.append((place, path(place, canary=nonce), hashlib.sha256(body).hexdigest()))
    return secrets.choice(pages) if pages else None
