"""Identity of a proxy: protocol, host, port and credentials, independent of its source. Pure."""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple
from urllib.parse import quote

SESSION_PLACEHOLDER = "{session}"  # in a gateway's credentials: each distinct value gets its own exit
ID_BYTES = 10  # 80 bits: a collision among 10 million proxies has a probability of 1 in 24 billion
ID_PATTERN: Final = "[0-9a-f]{20}"
TAG_PATTERN: Final = "[a-z0-9-]{1,32}"  # also of a source's id


class Protocol(StrEnum):
    """Protocol between client and proxy."""

    HTTP = "http"  # absolute-form requests and CONNECT
    HTTPS = "https"  # the same over TLS to the proxy
    SOCKS4 = "socks4"
    SOCKS5 = "socks5"


class Kind(StrEnum):
    """Network of the exit IP, as declared by the source."""

    RESIDENTIAL = "residential"
    DATACENTER = "datacenter"
    MOBILE = "mobile"
    UNKNOWN = "unknown"


class Status(StrEnum):
    """Lifecycle state of a proxy."""

    UNCHECKED = "unchecked"
    ACTIVE = "active"
    DEAD = "dead"
    RETIRED = "retired"  # removed by the operator; the row remains, so that sources cannot add it again


class Anonymity(StrEnum):
    """Information that reaches the target: our address (transparent), that a proxy is used (anonymous), neither
    (elite).
    """

    TRANSPARENT = "transparent"
    ANONYMOUS = "anonymous"
    ELITE = "elite"

    @property
    def rank(self) -> int:
        """0, 1 or 2: higher is more anonymous."""
        return list(Anonymity).index(self)


class Proxy(NamedTuple):
    """A proxy. Different spellings of one proxy give equal values, one `id` and one table row.

    `host` is canonical (IPv4, IPv6 without brackets, or a lower-case A-label name), `username` and `password` are
    decoded text without control characters, or None. `str` and `repr` hide the password; only `url` contains it. It is
    a tuple because a list creates a million of them: a frozen dataclass takes four times as long to create.
    """

    protocol: Protocol
    host: str
    port: int
    username: str | None = None
    password: str | None = None

    @property
    def id(self) -> str:
        """20 hex digits: a hash of all five fields."""
        parts = (self.protocol, self.host, str(self.port), self.username or "", self.password or "")
        return blake2b("\0".join(parts).encode(), digest_size=ID_BYTES).hexdigest()

    @property
    def address(self) -> str:
        """host:port, IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL with percent-encoded credentials. Secret: only for the holder of a lease."""
        if self.username is None:
            return f"{self.protocol}://{self.address}"
        password = "" if self.password is None else ":" + quote(self.password, safe="")
        return f"{self.protocol}://{quote(self.username, safe='')}{password}@{self.address}"

    def __str__(self) -> str:
        user = "" if self.username is None else f"{quote(self.username, safe='')}:***@"
        return f"{self.protocol}://{user}{self.address}"

    def __repr__(self) -> str:
        return f"Proxy({self!s})"
