"""TLS over in-memory buffers (sans I/O), so that it can be nested (HTTPS through an HTTPS proxy).

The event loops' own TLS transports allocate 256 KiB of buffers per connection; this one buffers only the data in flight.
"""

from __future__ import annotations

import ssl
from typing import Final

from proxypool.network.faults import Fault, TransportError

_READ_BYTES: Final = 65_536


def client_context(extra_ca_file: str = "") -> ssl.SSLContext:
    """A context that verifies certificates and names; it also trusts the CA in `extra_ca_file` (the local stack's own)."""
    context = ssl.create_default_context()
    if extra_ca_file:
        context.load_verify_locations(extra_ca_file)
    return context


class TlsLayer:
    """The client side of one TLS connection. Certificates and host names are always verified."""

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self.handshake_done = False  # the handshake is complete
        self.closed_by_peer = False  # the peer sent close_notify: the data is not truncated

    def feed(self, data: bytes) -> bytes:
        """Decrypts bytes from the network; `outgoing` may have a reply. Raises TransportError."""
        self._incoming.write(data)
        try:
            if not self.handshake_done:
                self._tls.do_handshake()
                self.handshake_done = True
            return self._read()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLCertVerificationError as error:
            raise TransportError(Fault.TLS_INTERCEPT) from error
        except ssl.SSLError as error:
            raise TransportError(Fault.TLS_FAILED) from error

    def encrypt(self, data: bytes) -> None:
        """Encrypts these bytes: see `outgoing`."""
        self._tls.write(data)

    def outgoing(self) -> bytes:
        """Bytes to send to the network now."""
        return self._outgoing.read()

    def _read(self) -> bytes:
        plaintext = bytearray()
        try:
            while data := self._tls.read(_READ_BYTES):
                plaintext += data
        except ssl.SSLWantReadError:
            return bytes(plaintext)
        except ssl.SSLZeroReturnError:
            pass
        self.closed_by_peer = True
        return bytes(plaintext)
