"""A proxy's identity: protocol, host, port and credentials, whatever list it came from. Pure; the parsers make these."""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple
from urllib.parse import quote

SESSION = "{session}"  # in a gateway's credentials: each text in its place gets an exit of its own
ID_BYTES = 10  # 80 bits: with 10 million proxies two share an id once in 24 billion pools
ID_PATTERN: Final = "[0-9a-f]{20}"
TAG_PATTERN: Final = "[a-z0-9-]{1,32}"  # also of a source's id


class Protocol(StrEnum):
    """How the client speaks to the proxy."""

    HTTP = "http"  # absolute-form requests and CONNECT
    HTTPS = "https"  # the same inside of TLS to the proxy
    SOCKS4 = "socks4"
    SOCKS5 = "socks5"


class Kind(StrEnum):
    """What network the exit stands in, as the source says."""

    RESIDENTIAL = "residential"
    DATACENTER = "datacenter"
    MOBILE = "mobile"
    UNKNOWN = "unknown"


class Status(StrEnum):
    """Where a proxy is in its life."""

    UNCHECKED = "unchecked"
    ACTIVE = "active"
    DEAD = "dead"
    RETIRED = "retired"  # removed by the operator; the row stays, so that no list brings it back


class Anonymity(StrEnum):
    """What the target learns: our address (transparent), that a proxy is there (anonymous), nothing (elite)."""

    TRANSPARENT = "transparent"
    ANONYMOUS = "anonymous"
    ELITE = "elite"

    @property
    def rank(self) -> int:
        """0, 1, 2: more is better."""
        return list(Anonymity).index(self)


class Proxy(NamedTuple):
    """One way out: two lists that name it in different spellings name one Proxy, one `id`, one item.

    `host` is canonical (IPv4, IPv6 without brackets, or a lower-case A-label name), `username` and `password` are
    decoded text without control characters, or None. Its text hides the password; only `url` shows it. A tuple, because a
    list makes a million of them: a frozen dataclass takes four times as long to make.
    """

    protocol: Protocol
    host: str
    port: int
    username: str | None = None
    password: str | None = None

    @property
    def id(self) -> str:
        """20 hex digits: the hash of all five parts."""
        parts = (self.protocol, self.host, str(self.port), self.username or "", self.password or "")
        return blake2b("\0".join(parts).encode(), digest_size=ID_BYTES).hexdigest()

    @property
    def address(self) -> str:
        """host:port, IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole truth, percent-encoded, for the holder of a lease alone."""
        if self.username is None:
            return f"{self.protocol}://{self.address}"
        password = "" if self.password is None else ":" + quote(self.password, safe="")
        return f"{self.protocol}://{quote(self.username, safe='')}{password}@{self.address}"

    def __str__(self) -> str:
        user = "" if self.username is None else f"{quote(self.username, safe='')}:***@"
        return f"{self.protocol}://{user}{self.address}"

    def __repr__(self) -> str:
        return f"Proxy({self!s})"
