"""Proxy records as rows of the ready index: which proxies are ready, in which sets, until when. Pure except `Index`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from proxypool import clock
from proxypool.leases.filters import ready_member
from proxypool.leases.pool import BILLION
from proxypool.leases.redis.cache import Cache
from proxypool.leases.redis.keys import ANY_COUNTRY, ready_set
from proxypool.proxies.proxy import Anonymity, Status
from proxypool.proxies.record import ProxyRecord, fresh_until
from proxypool.proxies.score import score

PROXIES_PER_CALL = 100
TARGET_PASSED = "ok"  # the verdict of a target rule that the proxy passed
STUB_MS = (
    48 * 3_600_000
)  # a removed proxy's version is kept for twice the stream's retention: late records do not restore it
TIE_BREAK = (
    1_000  # the last three digits of a score are derived from the id: scores differ, so that round_robin reaches all
)
REMOVED_VALUES = ("", "", "", "", "", "", "")


@dataclass(frozen=True, slots=True)
class Index:
    """Writes records to the ready index; a record that is not newer than the indexed one changes nothing."""

    cache: Cache
    max_age_seconds: int

    def upsert(self, records: Iterable[ProxyRecord], *, again: bool = False) -> int:
        """Adds, changes or removes proxies; returns how many were newer. With `again` (a rebuild) an equal version counts as newer."""
        rows = [(record.id, record.version, *upsert_values(record, self.max_age_seconds)) for record in records]
        return self._send(rows, again=again)

    def remove(self, removed: Iterable[tuple[str, int]]) -> int:
        """Removes proxies whose row was deleted, by id and last version; returns how many were indexed."""
        return self._send([(proxy_id, version + 1, *REMOVED_VALUES) for proxy_id, version in removed])

    def _send(self, rows: list[tuple[str | int, ...]], *, again: bool = False) -> int:
        newer = 0
        for start in range(0, len(rows), PROXIES_PER_CALL):
            page = rows[start : start + PROXIES_PER_CALL]
            newer += int(self.cache.run("upsert", STUB_MS, int(again), *(value for row in page for value in row)))
        return newer


def is_ready(record: ProxyRecord) -> bool:
    """Whether it can be leased by its last check (active, passed, not tampered with), regardless of the check's age."""
    check = record.check
    return (
        record.status is Status.ACTIVE
        and record.last_checked_at is not None
        and not check.tampered
        and check.failures_in_row == 0
    )


def upsert_values(record: ProxyRecord, max_age_seconds: int) -> tuple[str | int, ...]:
    """The values of upsert.lua after id and version: member, score, ready sets, fresh until (ms), slots, facts, rests.

    REMOVED_VALUES if the proxy is not ready.
    """
    fresh = fresh_until(record, max_age_seconds)
    if not is_ready(record) or fresh is None:
        return REMOVED_VALUES
    check, proxy = record.check, record.proxy
    value = score(check, record.lease).value
    anonymity = check.anonymity or Anonymity.TRANSPARENT
    countries = (ANY_COUNTRY, check.country) if check.country else (ANY_COUNTRY,)
    facts = {
        "proxy_url": proxy.url,
        "protocol": proxy.protocol,
        "exit_ip": None if record.slots > 1 else check.exit_ip,  # a gateway has another one with each lease
        "country": check.country,
        "anonymity": anonymity,
        "score": round(value, 4),
    }
    return (
        ready_member(record),
        round(value * BILLION / TIE_BREAK) * TIE_BREAK + int(record.id[:8], 16) % TIE_BREAK,
        " ".join(ready_set(proxy.protocol, country, anonymity.rank) for country in countries),
        clock.epoch_ms(fresh),
        record.slots,
        json.dumps(facts, separators=(",", ":")),
        _rests(record),
    )


def _rests(record: ProxyRecord) -> str:
    """The targets whose rule failed in the last check, for which the exit is not used until the next one: "<ms> <exit> <hosts>"."""
    check = record.check
    hosts = [host for host, fact in sorted(check.targets.items()) if fact.verdict != TARGET_PASSED]
    if not hosts or not check.exit_ip or record.next_check_at is None or record.slots > 1:
        return ""
    return " ".join((str(clock.epoch_ms(record.next_check_at)), check.exit_ip, *hosts))
