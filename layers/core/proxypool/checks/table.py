"""The checks table: one small item per check, append-only, deleted by TTL or by prune_old_checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pynamodb.attributes import DynamicMapAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from proxypool import clock
from proxypool.aws.dynamodb import bind_table
from proxypool.checks.check import Check


class CheckItem(Model):
    """A row; `facts` holds the non-empty fields of the check."""

    proxy_id = UnicodeAttribute(hash_key=True)
    checked_at = UnicodeAttribute(range_key=True)  # ISO 8601 instant, "#", claim
    facts = DynamicMapAttribute(attr_name="f")
    expires_at = NumberAttribute(attr_name="ttl")


@dataclass(frozen=True, slots=True)
class ChecksTable:
    """All access to the checks table. Reads exclude expired rows."""

    table_name: str

    def add(self, checks: Sequence[tuple[Check, int]], *, ttl_days: int) -> None:
        """Writes (check, claim) pairs; writing one again overwrites the same item."""
        with self._model.batch_write() as batch:
            for check, claim in checks:
                expires_at = clock.epoch(check.checked_at) + ttl_days * 86_400
                batch.save(self._model(check.proxy_id, _key(check, claim), facts=_facts(check), expires_at=expires_at))

    def newest_first(self, proxy_id: str, *, now: datetime, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """The checks of a proxy, newest first: stored facts plus `checked_at` (the sort key)."""
        not_expired = CheckItem.expires_at > clock.epoch(now)
        for item in self._model.query(proxy_id, filter_condition=not_expired, scan_index_forward=False, limit=limit):
            facts = item.facts.as_dict()
            facts.pop("attribute_values", None)  # added by pynamodb
            yield {"checked_at": item.checked_at, **facts}

    def keys(self, proxy_id: str) -> list[str]:
        """The sort keys of all checks of a proxy, newest first."""
        items = self._model.query(proxy_id, scan_index_forward=False, attributes_to_get=["proxy_id", "checked_at"])
        return [item.checked_at for item in items]

    def delete(self, proxy_id: str, keys: Iterable[str]) -> int:
        """Deletes the checks with these sort keys; returns the number of keys."""
        count = 0
        with self._model.batch_write() as batch:
            for key in keys:
                batch.delete(self._model(proxy_id, key))
                count += 1
        return count

    @property
    def _model(self) -> type[CheckItem]:
        return bind_table(CheckItem, self.table_name)


def _key(check: Check, claim: int) -> str:
    return f"{clock.iso(check.checked_at)}#{claim}"


def _facts(check: Check) -> dict[str, Any]:
    facts = {
        "verdict": check.verdict.value,
        "reason": check.reason.value if check.reason else None,
        "blame": check.blame.value if check.blame else None,
        "timings_ms": check.timings_ms or None,
        "latency_ms": check.latency_ms,
        "exits": list(check.exits) or None,
        "country": check.country,
        "region": check.region,
        "asn": check.asn,
        "anonymity": check.anonymity.value if check.anonymity else None,
        "basis": check.basis.value if check.basis else None,
        "https": check.https,
        "signed": check.signed or None,
        "tampered": check.tampered or None,
        "targets": {host: verdict.value for host, verdict in check.targets.items()} or None,
        "spoken": check.detected_protocol.value if check.detected_protocol else None,
        "full": check.full,
        "frozen": check.frozen or None,
    }
    return {name: value for name, value in facts.items() if value is not None}
