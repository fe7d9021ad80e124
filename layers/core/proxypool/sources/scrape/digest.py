"""The digest of the proxies that a source listed recently; it saves a read and a write of the table per unchanged row.

Stored in S3, 23 bytes per proxy. It is a cache: ids that it lacks are read from the table, ids in it are read again once a
day. A lost digest costs the reads of one scrape.
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

MAX_ENTRY_AGE_SECONDS: Final = 86_400  # maximum age of an entry; also the minimum time between writes of `last_seen_at`
MAX_ENTRIES: Final = 500_000  # 12 MB; the oldest are dropped first
_HEAD: Final = struct.Struct(">4s16s")
_ENTRY: Final = struct.Struct(">10sI4s4sB")
_MAGIC: Final = b"pps1"


class Mark(IntFlag):
    """Facts about a proxy when its row was last read."""

    NONE = 0
    AGED = 1  # first seen a day ago or more, and checked: counted for the yield
    ALIVE = 2
    EXCLUSIVE = 4  # no other source lists it


@dataclass(frozen=True, slots=True)
class DigestEntry:
    """One proxy: when its row was last read (epoch seconds), hashes of its host and network, its marks."""

    read_at: int
    host: bytes
    network: bytes
    marks: int


@dataclass(slots=True)
class Digest:
    """The digest of one source, by proxy id (as bytes)."""

    entries: dict[bytes, DigestEntry] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True for a new or lost digest."""
        return not self.entries

    def contains(self, proxy: Proxy) -> bool:
        """True if the source listed this proxy recently."""
        return bytes.fromhex(proxy.id) in self.entries

    def is_fresh(self, proxy: Proxy, now: datetime) -> bool:
        """True if the row was read within a day; such rows are skipped."""
        entry = self.entries.get(bytes.fromhex(proxy.id))
        return entry is not None and clock.epoch(now) - entry.read_at < MAX_ENTRY_AGE_SECONDS

    def add(self, records: Iterable[ProxyRecord], now: datetime) -> None:
        """Adds or replaces the entries of these rows."""
        for record in records:
            host, network = host_hashes(record.proxy)
            self.entries[bytes.fromhex(record.id)] = DigestEntry(clock.epoch(now), host, network, _marks(record, now))

    def retain(self, listed: Iterable[Proxy], now: datetime) -> None:
        """Drops entries that are no longer listed and older than a day."""
        ids = {bytes.fromhex(proxy.id) for proxy in listed}
        oldest = clock.epoch(now) - MAX_ENTRY_AGE_SECONDS
        entries = {key: entry for key, entry in self.entries.items() if key in ids or entry.read_at > oldest}
        if len(entries) > MAX_ENTRIES:
            newest = sorted(entries, key=lambda key: entries[key].read_at, reverse=True)[:MAX_ENTRIES]
            entries = {key: entries[key] for key in newest}
        self.entries = entries

    def count_marks(self, listed: Iterable[Proxy]) -> Mapping[Mark, int]:
        """The number of listed proxies with each mark; ALIVE counts only those that are also AGED."""
        counts = Counter[Mark]()
        for proxy in listed:
            entry = self.entries.get(bytes.fromhex(proxy.id))
            if entry is None:
                continue
            aged = bool(entry.marks & Mark.AGED)
            counts[Mark.AGED] += aged
            counts[Mark.ALIVE] += aged and bool(entry.marks & Mark.ALIVE)
            counts[Mark.EXCLUSIVE] += bool(entry.marks & Mark.EXCLUSIVE)
        return counts

    def pack(self, fingerprint: bytes) -> bytes:
        """Serializes the digest; `unpack` needs the same 16-byte fingerprint."""
        body = bytearray(_HEAD.pack(_MAGIC, fingerprint))
        for key, entry in self.entries.items():
            body += _ENTRY.pack(key, entry.read_at, entry.host, entry.network, entry.marks)
        return bytes(body)


def unpack(raw: bytes, fingerprint: bytes) -> Digest:
    """Deserializes a digest; returns an empty one for another version, another fingerprint or truncated bytes."""
    body = memoryview(raw)[_HEAD.size :]
    if raw[: _HEAD.size] != _HEAD.pack(_MAGIC, fingerprint) or len(body) % _ENTRY.size:
        return Digest()
    return Digest({key: DigestEntry(*values) for key, *values in _ENTRY.iter_unpack(body)})


def host_hashes(proxy: Proxy) -> tuple[bytes, bytes]:
    """Hashes of the host and of the network of a proxy."""
    return _hash(proxy.host), _hash(network_prefix(proxy.host))


def network_prefix(host: str) -> str:
    """The /24 of an IPv4 address, the /48 of an IPv6 address, a host name unchanged."""
    if not is_address(host):
        return host
    if ":" not in host:
        return host.rpartition(".")[0]
    head, _, tail = host.partition("::")
    groups = head.split(":") if head else []
    missing = 8 - len(groups) - (len(tail.split(":")) if tail else 0)
    return ":".join([*groups, *["0"] * missing, *tail.split(":")][:3])


@dataclass(frozen=True, slots=True)
class DigestStore:
    """The digests in the bucket, one object per source."""

    bucket: str

    def load(self, source_id: str, fingerprint: bytes) -> Digest:
        """The digest of a source; an empty one if it is missing or not valid."""
        try:
            with aws.translate_errors():
                response = aws.client("s3").get_object(Bucket=self.bucket, Key=_key(source_id))
        except aws.AwsError as error:
            if not error.code:
                raise
            return Digest()
        return unpack(response["Body"].read(), fingerprint)

    def save(self, source_id: str, digest: Digest, fingerprint: bytes) -> None:
        """Stores the digest of a source."""
        aws.client("s3").put_object(Bucket=self.bucket, Key=_key(source_id), Body=digest.pack(fingerprint))


def _key(source_id: str) -> str:
    return f"seen/{source_id}"


def _hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=4).digest()


def _marks(record: ProxyRecord, now: datetime) -> int:
    aged = record.last_checked_at is not None and (now - record.first_seen_at).total_seconds() >= MAX_ENTRY_AGE_SECONDS
    alive = record.status is Status.ACTIVE
    return (aged * Mark.AGED) | (alive * Mark.ALIVE) | ((len(record.sources) == 1) * Mark.EXCLUSIVE)
