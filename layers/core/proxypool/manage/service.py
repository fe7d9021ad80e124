"""What the admin routes do, without HTTP: values in, JSON-ready values out, errors of the API's table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from proxypool import aws, clock, queues
from proxypool.checks.explain import explain
from proxypool.errors import Invalid, NotFound, VersionConflict
from proxypool.proxies.proxy import Kind, Protocol, Status
from proxypool.proxies.record import ProxyRecord, due_shards
from proxypool.proxies.score import score
from proxypool.proxies.table import ProxyTable
from proxypool.settings import Settings
from proxypool.sources.api import changes_from_request, from_request, source_json, upload
from proxypool.sources.formats import parse
from proxypool.sources.record import Source
from proxypool.sources.table import SourceTable
from proxypool.state import GAUGES, SETTINGS, State
from proxypool.tasks import last_name, reason_name, result_name
from proxypool.web import Field, read_fields

TASKS: Final = (
    "scrape_all",
    "scrape_source",
    "revalidate_sweep",
    "validate_proxy",
    "prune_dead_proxies",
    "prune_old_checks",
    "expire_leases",
)
BY_HAND: Final = "by-hand"  # the source of proxies that POST /proxies adds
PAGE: Final = 100
MAX_SCANNED: Final = 1_000  # rows that one listing looks at
_TAG: Final = r"[a-z0-9-]{1,32}"

SETTINGS_FIELDS: Final = {
    "paused": Field(kind=bool, description="the kill switch: no scraping, validating, leasing"),
    "owner_quota": Field(kind=int, minimum=1, maximum=100_000, description="leases that one owner may hold"),
}
PROXIES_FIELDS: Final = {
    "lines": Field(kind=str, required=True, description="proxies, one a line, as in a list"),
    "protocol": Field(kind=str, default=Protocol.HTTP.value, choices=tuple(Protocol)),
    "kind": Field(kind=str, default=Kind.UNKNOWN.value, choices=tuple(Kind)),
    "tags": Field(kind=list, default=(), pattern=_TAG, max_items=10),
}
PROXY_FIELDS: Final = {
    "tags": Field(kind=list, pattern=_TAG, max_items=10),
    "kind": Field(kind=str, choices=tuple(Kind)),
}
QUERY_FIELDS: Final = {
    "status": Field(kind=str, choices=tuple(Status)),
    "protocol": Field(kind=str, choices=tuple(Protocol)),
    "country": Field(kind=str, pattern="[a-z]{2}"),
    "source": Field(kind=str, pattern=_TAG),
    "tag": Field(kind=str, pattern=_TAG),
    "after": Field(kind=str, pattern="[0-9a-f]{20}", description="where the page before ended"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """The admin's hands: the tables, the queues, and the settings that the functions read."""

    settings: Settings
    sources: SourceTable
    proxies: ProxyTable
    state: State

    def list_sources(self) -> dict[str, Any]:
        """All sources."""
        return {"sources": [source_json(source) for source in self.sources.list()]}

    def add_source(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A new source; raises Invalid, or VersionConflict where its id is taken."""
        source = from_request(body, settings=self.settings, now=clock.now())
        if not self.sources.put_new(source):
            raise VersionConflict("a source of that id is there already")
        return source_json(source)

    def source(self, source_id: str) -> dict[str, Any]:
        """One source; raises NotFound."""
        return source_json(self._source(source_id))

    def change_source(self, source_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The source as changed; raises NotFound or Invalid."""
        changes = changes_from_request(body, self._source(source_id), settings=self.settings)
        changed = self.sources.update(source_id, **changes)
        if changed is None:
            raise NotFound
        return source_json(changed)

    def remove_source(self, source_id: str) -> None:
        """Removes a source, its proxies stay; raises NotFound."""
        if not self.sources.delete(source_id):
            raise NotFound

    def scrape(self, source_id: str) -> dict[str, Any]:
        """Sends a source to the scrape queue now; raises NotFound."""
        self._source(source_id)
        queues.send(
            self.settings.need("scrape_queue_url"), [queues.ScrapeMessage(source_id=source_id)], group=source_id
        )
        return {"source_id": source_id, "queued": True}

    def upload(self, source_id: str) -> dict[str, Any]:
        """Where to PUT the source's list, which is scraped once it is asked for; raises NotFound or Invalid."""
        return upload(self._source(source_id), self.settings)

    def list_proxies(self, query: Mapping[str, str]) -> dict[str, Any]:
        """A page of proxies that fit, and where the next begins (`after`, null at the end). One page looks at 1,000 rows at most."""
        wanted = read_fields(query, QUERY_FIELDS)
        found: list[ProxyRecord] = []
        after, scanned = wanted["after"], 0
        while scanned < MAX_SCANNED:
            page, after = self.proxies.scan_page(after=after, limit=PAGE)
            scanned += PAGE
            found += [record for record in page if _fits(record, wanted)]
            if after is None or len(found) >= PAGE:
                break
        return {"proxies": [proxy_json(record) for record in found], "after": after}

    def add_proxies(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Adds proxies by hand, through the same parser, table and queue as a list; raises Invalid where no line is one."""
        values, now = read_fields(body, PROXIES_FIELDS), clock.now()
        parsed = parse("lines", values["lines"].encode(), default_protocol=Protocol(values["protocol"]))
        if not parsed.proxies:
            raise Invalid([{"field": "lines", "message": "no line is a proxy"}])
        done = self.proxies.upsert_many(
            list(parsed.proxies), source_id=BY_HAND, kind=Kind(values["kind"]), tags=frozenset(values["tags"]), now=now
        )
        messages = [
            queues.ValidateMessage(proxy_id=record.id, next_check_at=clock.epoch(record.next_check_at))
            for record in done.new
            if record.next_check_at is not None
        ]
        queues.send(self.settings.need("validate_queue_url"), messages, group=BY_HAND)
        return {
            "new": len(done.new),
            "updated": done.updated,
            "unchanged": done.unchanged,
            "rejected": dict(parsed.rejected),
        }

    def proxy(self, proxy_id: str) -> dict[str, Any]:
        """One proxy, explained; raises NotFound."""
        record = self.proxies.get(proxy_id)
        if record is None:
            raise NotFound
        return proxy_json(record) | {"explain": explain(record, clock.now(), self.settings)}

    def change_proxy(self, proxy_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The proxy with its new tags or kind; raises NotFound or Invalid."""
        values = read_fields(body, PROXY_FIELDS)
        tags = None if values["tags"] is None else frozenset(values["tags"])
        if not self.proxies.retag(proxy_id, tags=tags, kind=Kind(values["kind"]) if values["kind"] else None):
            raise NotFound
        return self.proxy(proxy_id)

    def remove_proxy(self, proxy_id: str) -> None:
        """Retires a proxy for good; raises NotFound."""
        if not self.proxies.retire(proxy_id):
            raise NotFound

    def operator_settings(self) -> dict[str, Any]:
        """What the operator set; null where the deployment's own value holds."""
        stored = self.state.get(SETTINGS) or {}
        return {name: stored.get(name) for name in SETTINGS_FIELDS}

    def change_settings(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Sets what `body` names (null: back to the deployment's value) and has it copied into Redis at once."""
        values = read_fields(body, SETTINGS_FIELDS)
        self.state.put(SETTINGS, self.operator_settings() | {name: values[name] for name in body})
        name = self.settings.expire_leases_function
        if name:
            aws.client("lambda").invoke(
                FunctionName=name, InvocationType="Event", Payload=json.dumps({"source": "settings"})
            )
        return self.operator_settings()

    def task(self, run_id: str) -> dict[str, Any]:
        """A run's result (kept for an hour), or the reason of a failed message; raises NotFound."""
        found = self.state.get(result_name(run_id)) or self.state.get(reason_name(run_id))
        if not isinstance(found, dict):
            raise NotFound
        return found

    def pool_stats(self, now: datetime) -> dict[str, Any]:
        """How the pool is: sizes by status (counted in the index of what is due), gauges, sources' yields, each task's last run."""
        last = {task: self.state.get(last_name(task)) for task in TASKS}
        gauges = self.state.get(GAUGES) or {}
        return {
            "at": clock.iso(now),
            "proxies": {status.value: self._size(status) for status in Status if status is not Status.RETIRED},
            "ready": gauges.get("ready", 0),
            "leases_open": gauges.get("leases_open", 0),
            "gauges_at": gauges.get("at"),
            "overdue": self._size(Status.ACTIVE, before=now) + self._size(Status.UNCHECKED, before=now),
            "last_scrape_at": _started(last["scrape_source"]),
            "last_validation_at": _started(last["validate_proxy"]),
            "sources": {
                source.source_id: {"rows": source.rows, "valid": source.valid, "new": source.new}
                for source in self.sources.list()
            },
            "tasks": last,
        }

    def _size(self, status: Status, before: datetime | None = None) -> int:
        return sum(self.proxies.count_due(shard, before=before) for shard in due_shards(status))

    def _source(self, source_id: str) -> Source:
        source = self.sources.get(source_id)
        if source is None:
            raise NotFound
        return source


def proxy_json(record: ProxyRecord) -> dict[str, Any]:
    """A proxy as a list shows it: never its password."""
    check = record.check
    instants = {
        name: getattr(record, name) for name in ("first_seen_at", "last_seen_at", "last_checked_at", "next_check_at")
    }
    return {
        "id": record.id, "proxy": str(record.proxy), "protocol": record.proxy.protocol.value, "status": record.status.value,
        "kind": record.kind.value, "tags": sorted(record.tags), "sources": sorted(record.sources),
        "score": round(score(check, record.lease).value, 4), "exit_ip": check.exit_ip, "country": check.country,
        "anonymity": check.anonymity and check.anonymity.value, "https": check.https, "tampered": check.tampered,
        "latency_ms": check.latency_ms, "reason": check.reason, "blame": check.blame,
        **{name: None if instant is None else clock.iso(instant) for name, instant in instants.items()},
    }  # fmt: skip


def _fits(record: ProxyRecord, wanted: Mapping[str, Any]) -> bool:
    facts = {"status": record.status, "protocol": record.proxy.protocol, "country": record.check.country}
    if any(wanted[name] is not None and value != wanted[name] for name, value in facts.items()):
        return False
    return (wanted["source"] is None or wanted["source"] in record.sources) and (
        wanted["tag"] is None or wanted["tag"] in record.tags
    )


def _started(run: Any) -> str | None:
    return str(run["started_at"]) if isinstance(run, dict) else None
