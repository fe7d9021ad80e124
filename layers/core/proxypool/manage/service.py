"""What the admin routes do, without HTTP: parsed values in, JSON-ready values out, ApiErrors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from proxypool import aws, clock
from proxypool.aws import queues
from proxypool.aws.state import FROZEN, REBUILD_WANTED, SETTINGS, State
from proxypool.checks.rules.explain import explain
from proxypool.checks.rules.target import MAX_RULES, RULE_FIELDS, parse_rules
from proxypool.config.settings import Settings
from proxypool.errors import Invalid, NotFound, VersionConflict
from proxypool.http.fields import to_json
from proxypool.http.web import Field
from proxypool.leases.operator_settings import RATE
from proxypool.manage.listing import TAG, page, proxy_json
from proxypool.manage.stats import pool_stats
from proxypool.proxies.proxy import Kind, Protocol
from proxypool.proxies.record import MAX_SLOTS, ProxyRecord
from proxypool.proxies.table import ProxyTable
from proxypool.sources.api import changes_from_request, from_values, upload
from proxypool.sources.formats import parse
from proxypool.sources.record import Source
from proxypool.sources.schedule import enqueue
from proxypool.sources.scrape.vetting import vetted
from proxypool.sources.table import SourceTable
from proxypool.tasks.retry import reason_name
from proxypool.tasks.runs import result_name

BY_HAND: Final = "by-hand"  # the source of proxies that POST /proxies adds

SETTINGS_FIELDS: Final = {
    "paused": Field(kind=bool, nullable=True, description="The kill switch: no scraping, validating, leasing"),
    "owner_quota": Field(
        kind=int, minimum=1, maximum=100_000, nullable=True, description="Leases that one owner may hold"
    ),
    "exit_cap": Field(
        kind=int, minimum=1, maximum=100_000, nullable=True, description="Holders that leave by one exit IP; null: any"
    ),
    "breaker_failures": Field(
        kind=int, minimum=1, maximum=1_000, nullable=True, description="Failures that open a breaker"
    ),
    "breaker_seconds": Field(kind=int, minimum=1, maximum=86_400, nullable=True, description="How long it stays open"),
    "rates": Field(
        kind=list,
        pattern=RATE,
        max_items=1_000,
        nullable=True,
        description="target=uses/seconds[+burst] of each exit; * for every other target",
    ),
    "targets": Field(
        kind=list,
        items=RULE_FIELDS,
        max_items=MAX_RULES,
        nullable=True,
        description="How sites answer those whom they serve",
    ),
    "frozen": Field(kind=bool, nullable=True, description="false ends a freeze of scores; a sweep alone begins one"),
}
PROXIES_FIELDS: Final = {
    "lines": Field(kind=str, required=True, description="proxies, one a line, as in a list"),
    "protocol": Field(kind=str, default=Protocol.HTTP.value, choices=tuple(Protocol)),
    "kind": Field(kind=str, default=Kind.UNKNOWN.value, choices=tuple(Kind)),
    "tags": Field(kind=list, default=(), pattern=TAG, max_items=10),
}
PROXY_FIELDS: Final = {
    "tags": Field(kind=list, pattern=TAG, max_items=10),
    "kind": Field(kind=str, choices=tuple(Kind)),
    "slots": Field(
        kind=int,
        minimum=1,
        maximum=MAX_SLOTS,
        description="How many may hold it at once; more than one makes it a gateway, whose exits change from lease to lease",
    ),
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
        return {"sources": [to_json(source) for source in self.sources.list()]}

    def add_source(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A new source; raises Invalid, or VersionConflict where its id is taken."""
        now = clock.now().replace(microsecond=0)  # as the table keeps it
        source = from_values(values, settings=self.settings, now=now)
        if not self.sources.put_new(source):
            raise VersionConflict("a source with this id exists")
        return to_json(source)

    def source(self, source_id: str) -> dict[str, Any]:
        """One source; raises NotFound."""
        return to_json(self._source(source_id))

    def change_source(self, source_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """The source as changed; raises NotFound or Invalid."""
        changes = changes_from_request(values, self._source(source_id), settings=self.settings)
        changed = self.sources.update(source_id, **changes)
        if changed is None:
            raise NotFound
        return to_json(changed)

    def remove_source(self, source_id: str) -> None:
        """Removes a source, its proxies stay; raises NotFound."""
        if not self.sources.delete(source_id):
            raise NotFound

    def scrape(self, source_id: str) -> dict[str, Any]:
        """Sends a source to the scrape queue now; raises NotFound."""
        self._source(source_id)
        enqueue(source_id, self.settings)
        return {"source_id": source_id, "queued": True}

    def upload(self, source_id: str) -> dict[str, Any]:
        """Where to PUT the source's list, which is scraped once it is asked for; raises NotFound or Invalid."""
        return upload(self._source(source_id), self.settings)

    def list_proxies(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """A page of proxies that fit, and where the next begins; `wanted` as QUERY_FIELDS has it."""
        return page(self.proxies, wanted)

    def add_proxies(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Adds proxies by hand, through the same parser, table and queue as a list; raises Invalid where no line is one."""
        now = clock.now()
        raw, protocol = values["lines"].encode(), Protocol(values["protocol"])
        parsed = vetted(parse("lines", raw, default_protocol=protocol), allow_loopback=self.settings.allow_loopback)
        if not parsed.proxies:
            why = ", ".join(f"{number} {reason}" for reason, number in parsed.rejected.items())
            raise Invalid([{"field": "lines", "message": f"no line is a proxy: {why or 'there is none'}"}])
        done = self.proxies.upsert_many(
            list(parsed.proxies), source_id=BY_HAND, kind=Kind(values["kind"]), tags=frozenset(values["tags"]), now=now
        )
        self._check_now(done.new)
        return {
            "new": len(done.new),
            "updated": done.updated,
            "unchanged": done.unchanged,
            "rejected": dict(parsed.rejected),
        }

    def proxy(self, proxy_id: str) -> dict[str, Any]:
        """One proxy, explained; raises NotFound."""
        record = self._proxy(proxy_id)
        rules = parse_rules(self.operator_settings()["targets"] or (), allow_loopback=self.settings.allow_loopback)
        targets = frozenset(rule.host for rule in rules)
        return proxy_json(record) | {"explain": explain(record, clock.now(), self.settings, targets=targets)}

    def change_proxy(self, proxy_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """The proxy with its new tags, kind or slots; raises NotFound or Invalid."""
        tags = None if values["tags"] is None else frozenset(values["tags"])
        kind = Kind(values["kind"]) if values["kind"] else None
        if any(value is not None for value in values.values()) and not self.proxies.describe(
            proxy_id, tags=tags, kind=kind, slots=values["slots"]
        ):
            raise NotFound
        return self.proxy(proxy_id)

    def remove_proxy(self, proxy_id: str) -> None:
        """Retires a proxy for good; raises NotFound."""
        if not self.proxies.retire(proxy_id):
            raise NotFound

    def restore_proxy(self, proxy_id: str) -> dict[str, Any]:
        """Takes a removal back and has the proxy checked now; one that was not removed stays as it is. Raises NotFound."""
        restored = self.proxies.restore(proxy_id, now=clock.now())
        record = self._proxy(proxy_id)
        if restored:
            self._check_now([record])
        return proxy_json(record)

    def operator_settings(self) -> dict[str, Any]:
        """What the operator set; null where the deployment's own value holds."""
        stored = self.state.get(SETTINGS) or {}
        return {name: stored.get(name) for name in SETTINGS_FIELDS} | {"frozen": self.state.get(FROZEN)}

    def change_settings(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Sets the given values (None: back to the deployment's value) and has it copied into Redis at once."""
        _check_rules(values.get("targets") or (), self.settings)
        if values.get("frozen"):
            raise Invalid([{"field": "frozen", "message": "can only be set to false"}])
        if values.get("frozen") is False:
            self.state.put(FROZEN, None, ttl_seconds=0)  # as good as gone; no right to delete is needed
        changed = {name: value for name, value in values.items() if name != "frozen"}
        self.state.put(SETTINGS, (self.state.get(SETTINGS) or {}) | changed)
        self._wake_bridge("settings")
        return self.operator_settings()

    def rebuild(self) -> dict[str, Any]:
        """Has the ready index written again from the proxies table, now and page by page; leases go on meanwhile."""
        wanted_at = clock.iso(clock.now())
        self.state.put(REBUILD_WANTED, {"at": wanted_at})
        self._wake_bridge("rebuild")
        return {"wanted_at": wanted_at}

    def task(self, run_id: str) -> dict[str, Any]:
        """A run's result (kept for an hour), or the reason of a failed message; raises NotFound."""
        found = self.state.get(result_name(run_id)) or self.state.get(reason_name(run_id))
        if not isinstance(found, dict):
            raise NotFound
        return found

    def pool_stats(self) -> dict[str, Any]:
        """How the pool is."""
        return pool_stats(self.state, self.sources.list(), clock.now())

    def _wake_bridge(self, why: str) -> None:
        """Has expire_leases run now; where nobody named it, its next run does the same."""
        name = self.settings.expire_leases_function
        if name:
            aws.client("lambda").invoke(FunctionName=name, InvocationType="Event", Payload=json.dumps({"source": why}))

    def _check_now(self, records: Iterable[ProxyRecord]) -> None:
        messages = [
            queues.ValidateMessage(proxy_id=record.id, next_check_at=clock.epoch(record.next_check_at))
            for record in records
            if record.next_check_at is not None
        ]
        queues.send(self.settings.need("validate_queue_url"), messages, group=BY_HAND)

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


def _check_rules(values: Sequence[Mapping[str, Any]], known: Settings) -> None:
    try:
        parse_rules(values, allow_loopback=known.allow_loopback)
    except ValueError as error:
        raise Invalid([{"field": "targets", "message": str(error)}]) from error
