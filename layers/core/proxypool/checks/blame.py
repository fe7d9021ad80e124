"""Whose fault a failed stage is. Pure.

The judge was asked directly before the batch, and again where a failure looks like its own: a bad status is then the proxy's.
"""

from __future__ import annotations

from proxypool.checks.check import Blame, Reason, Verdict

_OTHERS = {
    Reason.CREDENTIALS: Blame.CREDENTIALS,
    Reason.NO_ROUTE: Blame.OURS,  # Lambda has no IPv6 egress
    Reason.UNSUPPORTED: Blame.OURS,
    Reason.JUDGE_DOWN: Blame.JUDGE,
}


def blame(reason: Reason) -> Blame:
    """The one whose fault it is."""
    return _OTHERS.get(reason, Blame.PROXY)


def verdict(reason: Reason) -> Verdict:
    """Failed where the proxy or its credentials are to blame, else inconclusive."""
    return Verdict.FAILED if blame(reason) in (Blame.PROXY, Blame.CREDENTIALS) else Verdict.INCONCLUSIVE
