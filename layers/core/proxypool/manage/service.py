"""Service behind the admin routes, independent of HTTP: takes parsed values, returns JSON-compatible values, raises ApiErrors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from proxypool import aws, clock
from proxypool.aws import queues
from proxypool.aws.state import FROZEN, REBUILD_WANTED, SETTINGS, StateTable
from proxypool.checks.rules.explain import explain
from proxypool.checks.rules.target import MAX_RULES, RULE_FIELDS, parse_rules
from proxypool.config.settings import Settings
from proxypool.errors import Invalid, NotFound, VersionConflict
from proxypool.http.fields import to_json
from proxypool.http.web import Field
from proxypool.leases.operator_settings import RATE_PATTERN
from proxypool.manage.listing import proxies_page, proxy_json
from proxypool.manage.stats import pool_stats
from proxypool.proxies.proxy import TAG_PATTERN, Kind, Protocol
from proxypool.proxies.record import MAX_SLOTS, ProxyRecord
from proxypool.proxies.table import ProxyTable
from proxypool.sources.api import changes_from_request, from_values, presign_upload
from proxypool.sources.formats import parse
from proxypool.sources.record import Source
from proxypool.sources.schedule import enqueue
from proxypool.sources.scrape.vetting import remove_forbidden
from proxypool.sources.table import SourceTable
from proxypool.tasks.retry import reason_name
from proxypool.tasks.runs import result_name

MANUAL_SOURCE: Final = "by-hand"  # source id of proxies added by POST /proxies

SETTINGS_FIELDS: Final = {
    "paused": Field(kind=bool, nullable=True, description="Kill switch: stops scraping, validation and leasing"),
    "owner_quota": Field(kind=int, minimum=1, maximum=100_000, nullable=True, description="Maximum leases per owner"),
    "exit_cap": Field(
        kind=int,
        minimum=1,
        maximum=100_000,
        nullable=True,
        description="Maximum concurrent holders of one exit IP; null: no limit",
    ),
    "breaker_failures": Field(
        kind=int,
        minimum=1,
        maximum=1_000,
        nullable=True,
        description="Consecutive failures that open a circuit breaker",
    ),
    "breaker_seconds": Field(
        kind=int, minimum=1, maximum=86_400, nullable=True, description="How long a circuit breaker stays open"
    ),
    "rates": Field(
        kind=list,
        pattern=RATE_PATTERN,
        max_items=1_000,
        nullable=True,
        description="Rate limits per exit IP: target=uses/seconds[+burst]; * for all other targets",
    ),
    "targets": Field(
        kind=list,
        items=RULE_FIELDS,
        max_items=MAX_RULES,
        nullable=True,
        description="Rules that recognize a normal response of a target",
    ),
    "frozen": Field(kind=bool, nullable=True, description="false ends a freeze of scores; only a sweep can start one"),
}
PROXIES_FIELDS: Final = {
    "lines": Field(kind=str, required=True, description="Proxies, one per line, in any format of a source list"),
    "protocol": Field(kind=str, default=Protocol.HTTP.value, choices=tuple(Protocol)),
    "kind": Field(kind=str, default=Kind.UNKNOWN.value, choices=tuple(Kind)),
    "tags": Field(kind=list, default=(), pattern=TAG_PATTERN, max_items=10),
}
PROXY_FIELDS: Final = {
    "tags": Field(kind=list, pattern=TAG_PATTERN, max_items=10),
    "kind": Field(kind=str, choices=tuple(Kind)),
    "slots": Field(
        kind=int,
        minimum=1,
        maximum=MAX_SLOTS,
        description="Maximum concurrent leases; more than one means a gateway, whose exit changes with each lease",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """Operations on sources, proxies, operator settings, runs and statistics."""

    settings: Settings
    sources: SourceTable
    proxies: ProxyTable
    state: StateTable

    def list_sources(self) -> dict[str, Any]:
        """All sources."""
        return {"sources": [to_json(source) for source in self.sources.list()]}

    def add_source(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Creates a source; raises Invalid, or VersionConflict if its id exists."""
        now = clock.now().replace(microsecond=0)  # precision of the table
        source = from_values(values, settings=self.settings, now=now)
        if not self.sources.put_new(source):
            raise VersionConflict("a source with this id exists")
        return to_json(source)

    def source(self, source_id: str) -> dict[str, Any]:
        """One source; raises NotFound."""
        return to_json(self._source(source_id))

    def change_source(self, source_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Updates a source; raises NotFound or Invalid."""
        changes = changes_from_request(values, self._source(source_id), settings=self.settings)
        changed = self.sources.update(source_id, **changes)
        if changed is None:
            raise NotFound
        return to_json(changed)

    def remove_source(self, source_id: str) -> None:
        """Deletes a source but not its proxies; raises NotFound."""
        if not self.sources.delete(source_id):
            raise NotFound

    def scrape(self, source_id: str) -> dict[str, Any]:
        """Enqueues a scrape of the source; raises NotFound."""
        self._source(source_id)
        enqueue(source_id, self.settings)
        return {"source_id": source_id, "queued": True}

    def upload(self, source_id: str) -> dict[str, Any]:
        """A presigned URL for uploading the list of the source, to be scraped by POST …/scrape; raises NotFound or Invalid."""
        return presign_upload(self._source(source_id), self.settings)

    def list_proxies(self, query: Mapping[str, Any]) -> dict[str, Any]:
        """A page of the proxies that match `query` (see QUERY_FIELDS), with the token of the next page."""
        return proxies_page(self.proxies, query)

    def add_proxies(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Adds proxies like a source list does; raises Invalid if no line is a valid proxy."""
        now = clock.now()
        raw, protocol = values["lines"].encode(), Protocol(values["protocol"])
        parsed = remove_forbidden(
            parse("lines", raw, default_protocol=protocol), allow_loopback=self.settings.allow_loopback
        )
        if not parsed.proxies:
            reasons = ", ".join(f"{number} {reason}" for reason, number in parsed.rejected.items())
            raise Invalid([{"field": "lines", "message": f"no line is a proxy: {reasons or 'there is none'}"}])
        result = self.proxies.upsert_many(
            list(parsed.proxies),
            source_id=MANUAL_SOURCE,
            kind=Kind(values["kind"]),
            tags=frozenset(values["tags"]),
            now=now,
        )
        self._enqueue_checks(result.new)
        return {
            "new": len(result.new),
            "updated": result.updated,
            "unchanged": result.unchanged,
            "rejected": dict(parsed.rejected),
        }

    def proxy(self, proxy_id: str) -> dict[str, Any]:
        """One proxy, with an explanation of its score and state; raises NotFound."""
        record = self._proxy(proxy_id)
        rules = parse_rules(self.operator_settings()["targets"] or (), allow_loopback=self.settings.allow_loopback)
        targets = frozenset(rule.host for rule in rules)
        return proxy_json(record) | {"explain": explain(record, clock.now(), self.settings, targets=targets)}

    def change_proxy(self, proxy_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Updates tags, kind or slots of a proxy; raises NotFound or Invalid."""
        tags = None if values["tags"] is None else frozenset(values["tags"])
        kind = Kind(values["kind"]) if values["kind"] else None
        if any(value is not None for value in values.values()) and not self.proxies.describe(
            proxy_id, tags=tags, kind=kind, slots=values["slots"]
        ):
            raise NotFound
        return self.proxy(proxy_id)

    def remove_proxy(self, proxy_id: str) -> None:
        """Retires a proxy permanently; raises NotFound."""
        if not self.proxies.retire(proxy_id):
            raise NotFound

    def restore_proxy(self, proxy_id: str) -> dict[str, Any]:
        """Restores a retired proxy and enqueues a check; no effect on other proxies. Raises NotFound."""
        restored = self.proxies.restore(proxy_id, now=clock.now())
        record = self._proxy(proxy_id)
        if restored:
            self._enqueue_checks([record])
        return proxy_json(record)

    def operator_settings(self) -> dict[str, Any]:
        """The operator settings; null where the setting of the deployment applies."""
        stored = self.state.get(SETTINGS) or {}
        return {name: stored.get(name) for name in SETTINGS_FIELDS} | {"frozen": self.state.get(FROZEN)}

    def change_settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Updates operator settings (None: back to the setting of the deployment) and triggers their copy to Redis."""
        _check_rules(values.get("targets") or (), self.settings)
        if values.get("frozen"):
            raise Invalid([{"field": "frozen", "message": "can only be set to false"}])
        if values.get("frozen") is False:
            self.state.put(FROZEN, None, ttl_seconds=0)  # expires at once; avoids the permission to delete
        changes = {name: value for name, value in values.items() if name != "frozen"}
        self.state.put(SETTINGS, (self.state.get(SETTINGS) or {}) | changes)
        self._trigger_bridge("settings")
        return self.operator_settings()

    def rebuild(self) -> dict[str, Any]:
        """Triggers a rebuild of the ready index from the proxies table; leasing continues meanwhile."""
        requested_at = clock.iso(clock.now())
        self.state.put(REBUILD_WANTED, {"at": requested_at})
        self._trigger_bridge("rebuild")
        return {"wanted_at": requested_at}

    def task(self, run_id: str) -> dict[str, Any]:
        """The result of a run (stored for an hour), or the last failure of a message; raises NotFound."""
        result = self.state.get(result_name(run_id)) or self.state.get(reason_name(run_id))
        if not isinstance(result, dict):
            raise NotFound
        return result

    def pool_stats(self) -> dict[str, Any]:
        """Statistics of the pool."""
        return pool_stats(self.state, self.sources.list(), clock.now())

    def _trigger_bridge(self, reason: str) -> None:
        """Invokes expire_leases now; without its name the next scheduled run has the same effect."""
        name = self.settings.expire_leases_function
        if name:
            aws.client("lambda").invoke(
                FunctionName=name, InvocationType="Event", Payload=json.dumps({"source": reason})
            )

    def _enqueue_checks(self, records: Iterable[ProxyRecord]) -> None:
        messages = [
            queues.ValidateMessage(proxy_id=record.id, next_check_at=clock.epoch(record.next_check_at))
            for record in records
            if record.next_check_at is not None
        ]
        queues.send(self.settings.need("validate_queue_url"), messages, group=MANUAL_SOURCE)

    def _proxy(self, proxy_id: str) -> ProxyRecord:
        record = self.proxies.get(proxy_id)
        if record is None:
            raise NotFound
        return record

    def _source(self, source_id: str) -> Source:
        source = self.sources.get(source_id)
        if source is None:
            raise NotFound
        return source


def _check_rules(values: Sequence[Mapping[str, Any]], config: Settings) -> None:
    try:
        parse_rules(values, allow_loopback=config.allow_loopback)
    except ValueError as error:
        raise Invalid([{"field": "targets", "message": str(error)}]) from error
