"""What a source's lists held lately: the digest that spares the proxies table a read and a write per unchanged row.

Kept in S3, 23 bytes a proxy. It is a hint, never the truth: an id that it lacks is looked up in the table, an id that it
holds is looked up again once a day. Whoever loses it pays for one scrape's reads.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntFlag
from hashlib import blake2b
from typing import Final

from proxypool import aws, clock
from proxypool.network.address import is_address
from proxypool.proxies.proxy import Proxy, Status
from proxypool.proxies.record import ProxyRecord

LOOK_SECONDS: Final = 86_400  # how old a look at the table may be; also `last_seen_at` is written so often at most
MAX_ENTRIES: Final = 500_000  # 12 MB; the oldest go first
_HEAD: Final = struct.Struct(">4s16s")
_ENTRY: Final = struct.Struct(">10sI4s4sB")
_MAGIC: Final = b"pps1"


class Mark(IntFlag):
    """What the last look at a proxy's row found."""

    NONE = 0
    AGED = 1  # first seen a day ago or more, and checked: it counts for the yield
    ALIVE = 2
    EXCLUSIVE = 4  # no other source lists it


@dataclass(frozen=True, slots=True)
class Entry:
    """One proxy: when its row was looked at (epoch seconds), where it stands (hashes), what was found."""

    looked_at: int
    host: bytes
    network: bytes
    marks: int


@dataclass(slots=True)
class Seen:
    """The digest of one source. `is_empty` tells a lost or new one from one that knows."""

    entries: dict[bytes, Entry] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether it knows nothing."""
        return not self.entries

    def holds(self, proxy: Proxy) -> bool:
        """Whether the source listed it before."""
        return bytes.fromhex(proxy.id) in self.entries

    def is_fresh(self, proxy: Proxy, now: datetime) -> bool:
        """Whether its row was looked at within the day: then it is left alone."""
        entry = self.entries.get(bytes.fromhex(proxy.id))
        return entry is not None and clock.epoch(now) - entry.looked_at < LOOK_SECONDS

    def note(self, records: Iterable[ProxyRecord], now: datetime) -> None:
        """Remembers rows as they are in the table now."""
        for record in records:
            host, network = place(record.proxy)
            self.entries[bytes.fromhex(record.id)] = Entry(clock.epoch(now), host, network, _marks(record, now))

    def keep(self, listed: Iterable[Proxy], now: datetime) -> None:
        """Forgets what is no longer listed and was not looked at within the day."""
        ids = {bytes.fromhex(proxy.id) for proxy in listed}
        line = clock.epoch(now) - LOOK_SECONDS
        kept = {key: entry for key, entry in self.entries.items() if key in ids or entry.looked_at > line}
        if len(kept) > MAX_ENTRIES:
            newest = sorted(kept, key=lambda key: kept[key].looked_at, reverse=True)[:MAX_ENTRIES]
            kept = {key: kept[key] for key in newest}
        self.entries = kept

    def marked(self, listed: Iterable[Proxy]) -> Mapping[Mark, int]:
        """How many of the listed ones carry each mark; ALIVE counts those that are AGED too."""
        found = Counter[Mark]()
        for proxy in listed:
            entry = self.entries.get(bytes.fromhex(proxy.id))
            if entry is None:
                continue
            aged = bool(entry.marks & Mark.AGED)
            found[Mark.AGED] += aged
            found[Mark.ALIVE] += aged and bool(entry.marks & Mark.ALIVE)
            found[Mark.EXCLUSIVE] += bool(entry.marks & Mark.EXCLUSIVE)
        return found

    def pack(self, fingerprint: bytes) -> bytes:
        """As bytes, for `unpack` under the same 16-byte fingerprint."""
        body = bytearray(_HEAD.pack(_MAGIC, fingerprint))
        for key, entry in self.entries.items():
            body += _ENTRY.pack(key, entry.looked_at, entry.host, entry.network, entry.marks)
        return bytes(body)


def unpack(raw: bytes, fingerprint: bytes) -> Seen:
    """The digest in these bytes; an empty one where they are another version's, another fingerprint's or torn."""
    body = memoryview(raw)[_HEAD.size :]
    if raw[: _HEAD.size] != _HEAD.pack(_MAGIC, fingerprint) or len(body) % _ENTRY.size:
        return Seen()
    return Seen({key: Entry(*rest) for key, *rest in _ENTRY.iter_unpack(body)})


def place(proxy: Proxy) -> tuple[bytes, bytes]:
    """Hashes of a proxy's host and of its network: the /24 of an IPv4 address, the /48 of an IPv6 one, a name itself."""
    return _hash(proxy.host), _hash(network_of(proxy.host))


def network_of(host: str) -> str:
    """The /24, the /48, or the name."""
    if not is_address(host):
        return host
    if ":" not in host:
        return host.rpartition(".")[0]
    head, _, tail = host.partition("::")
    groups = head.split(":") if head else []
    missing = 8 - len(groups) - (len(tail.split(":")) if tail else 0)
    return ":".join([*groups, *["0"] * missing, *tail.split(":")][:3])


@dataclass(frozen=True, slots=True)
class SeenStore:
    """The digests in the bucket, one object per source."""

    bucket: str

    def load(self, source_id: str, fingerprint: bytes) -> Seen:
        """A source's digest; an empty one where there is none that fits."""
        try:
            with aws.translated():
                found = aws.client("s3").get_object(Bucket=self.bucket, Key=_key(source_id))
        except aws.AwsError as error:
            if not error.code:
                raise
            return Seen()
        return unpack(found["Body"].read(), fingerprint)

    def save(self, source_id: str, seen: Seen, fingerprint: bytes) -> None:
        """Replaces a source's digest."""
        aws.client("s3").put_object(Bucket=self.bucket, Key=_key(source_id), Body=seen.pack(fingerprint))


def _key(source_id: str) -> str:
    return f"seen/{source_id}"


def _hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=4).digest()


def _marks(record: ProxyRecord, now: datetime) -> int:
    aged = record.last_checked_at is not None and (now - record.first_seen_at).total_seconds() >= LOOK_SECONDS
    alive = record.status is Status.ACTIVE
    return (aged * Mark.AGED) | (alive * Mark.ALIVE) | ((len(record.sources) == 1) * Mark.EXCLUSIVE)
