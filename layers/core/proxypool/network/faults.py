"""What can go wrong on the way through a proxy: a closed set of words, and the error that carries one."""

from __future__ import annotations

from enum import StrEnum

from proxypool.errors import ProxyPoolError


class Fault(StrEnum):
    """What went wrong on the wire."""

    NO_ROUTE = "no_route"  # this host has no way there, or no socket left: ours, not the proxy's
    UNSUPPORTED = "unsupported"  # the proxy's protocol cannot name such a target (SOCKS4 and IPv6): nobody's fault
    REFUSED = "connection_refused"
    CLOSED = "connection_closed"
    PROTOCOL = "protocol_error"
    TOO_LARGE = "too_large"
    CREDENTIALS = "credentials_refused"  # 407, a SOCKS login that failed or is missing, a login that must not be sent
    REDIRECT = "unexpected_redirect"  # CONNECT answered by a 3xx, which is never followed
    CONNECT_REFUSED = "connect_refused"  # the proxy is asked for a tunnel and says no
    TLS_INTERCEPT = "tls_intercept"  # another certificate than the target's
    TLS_FAILED = "tls_failed"


class WireError(ProxyPoolError):
    """The exchange failed; `fault` says how. Time-outs are TimeoutError: the caller sets the deadline.

    `code` is what the proxy said where it refused a tunnel: the status of its answer to CONNECT, or SOCKS' reply; else 0.
    """

    def __init__(self, fault: Fault, code: int = 0) -> None:
        super().__init__(fault.value)
        self.fault, self.code = fault, code
