"""Maps the reason of a failed stage to the party at fault. Pure.

The judge is probed directly before the batch, and again when a failure could be its own: a bad status is then blamed on
the proxy.
"""

from __future__ import annotations

from proxypool.checks.check import Blame, Reason, Verdict

_BLAME_BY_REASON = {
    Reason.CREDENTIALS: Blame.CREDENTIALS,
    Reason.NO_ROUTE: Blame.POOL,  # Lambda has no IPv6 egress
    Reason.UNSUPPORTED: Blame.POOL,
    Reason.JUDGE_DOWN: Blame.JUDGE,
}


def blame_for(reason: Reason) -> Blame:
    """The party at fault; the proxy unless the table names another."""
    return _BLAME_BY_REASON.get(reason, Blame.PROXY)


def verdict_for(reason: Reason) -> Verdict:
    """FAILED if the proxy or its credentials are to blame, else INCONCLUSIVE."""
    return Verdict.FAILED if blame_for(reason) in (Blame.PROXY, Blame.CREDENTIALS) else Verdict.INCONCLUSIVE
