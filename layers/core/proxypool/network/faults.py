"""Failures of an exchange through a proxy: a closed set, and the exception that carries one."""

from __future__ import annotations

from enum import StrEnum

from proxypool.errors import ProxyPoolError


class Fault(StrEnum):
    """Kind of failure (closed set)."""

    NO_ROUTE = "no_route"  # no route from this host or no free socket: not the proxy's fault
    UNSUPPORTED = "unsupported"  # the proxy protocol cannot address the target (SOCKS4 and IPv6)
    REFUSED = "connection_refused"
    CLOSED = "connection_closed"
    PROTOCOL = "protocol_error"
    TOO_LARGE = "too_large"
    CREDENTIALS = "credentials_refused"  # 407, SOCKS authentication failed or is missing, unsendable credentials
    REDIRECT = "unexpected_redirect"  # 3xx to CONNECT, never followed
    CONNECT_REFUSED = "connect_refused"  # the proxy refuses to open a tunnel
    TLS_INTERCEPT = "tls_intercept"  # the certificate is not the target's
    TLS_FAILED = "tls_failed"


class TransportError(ProxyPoolError):
    """The exchange failed. Timeouts are TimeoutError instead: the caller sets the deadline.

    `code` is the proxy's own code for a refused tunnel: the status of the response to CONNECT or the SOCKS reply code;
    else 0.
    """

    def __init__(self, fault: Fault, code: int = 0) -> None:
        super().__init__(fault.value)
        self.fault, self.code = fault, code
