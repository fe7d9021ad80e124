"""TLS as a layer over bytes, without a transport of its own: so it can lie inside of another (HTTPS through an HTTPS proxy).

The loops' own TLS transports keep 256 KiB of buffers for each connection; this one keeps what is in flight.
"""

from __future__ import annotations

import ssl
from typing import Final

from proxypool.network.faults import Fault, WireError

_READ_BYTES: Final = 65_536


def client_context(extra_ca_file: str = "") -> ssl.SSLContext:
    """A context that verifies certificates and names; it also trusts the CA in `extra_ca_file` (the local stack's own)."""
    context = ssl.create_default_context()
    if extra_ca_file:
        context.load_verify_locations(extra_ca_file)
    return context


class TlsLayer:
    """The client's end of one TLS connection. The context verifies: certificates and names, always."""

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self.ready = False  # the handshake is done
        self.finished = False  # the other side has said that it is done: what came before is whole

    def feed(self, data: bytes) -> bytes:
        """What these bytes from the network say; `outgoing` may have an answer. Raises WireError."""
        self._incoming.write(data)
        try:
            if not self.ready:
                self._tls.do_handshake()
                self.ready = True
            return self._read()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLCertVerificationError as error:
            raise WireError(Fault.TLS_INTERCEPT) from error
        except ssl.SSLError as error:
            raise WireError(Fault.TLS_FAILED) from error

    def encrypt(self, data: bytes) -> None:
        """Puts these bytes on the way: see `outgoing`."""
        self._tls.write(data)

    def outgoing(self) -> bytes:
        """What is to be sent to the network now."""
        return self._outgoing.read()

    def _read(self) -> bytes:
        read = bytearray()
        try:
            while data := self._tls.read(_READ_BYTES):
                read += data
        except ssl.SSLWantReadError:
            return bytes(read)
        except ssl.SSLZeroReturnError:
            pass
        self.finished = True
        return bytes(read)
