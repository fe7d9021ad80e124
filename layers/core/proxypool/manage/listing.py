"""The list of proxies: its query, a page of it, and a proxy as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from proxypool.checks.check import TargetVerdict
from proxypool.http.fields import json_schema, to_json
from proxypool.http.operation import FRACTION, Schema, object_
from proxypool.http.web import Field
from proxypool.proxies.proxy import ID_PATTERN, TAG_PATTERN, Anonymity, Kind, Protocol, Status
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.score import score
from proxypool.proxies.table import ProxyTable

MAX_SCANNED: Final = 2_000  # rows read for one page: two megabytes
ROWS_PER_READ: Final = 500
HOST_PATTERN: Final = r"[a-z0-9.:-]{1,253}"

LIST_PROXIES_QUERY: Final = {
    "status": Field(kind=str, choices=tuple(Status)),
    "protocol": Field(kind=str, choices=tuple(Protocol)),
    "country": Field(kind=str, pattern="[a-z]{2}", description="Of the exit: ISO 3166 alpha-2, lower case"),
    "anonymity": Field(kind=str, choices=tuple(Anonymity), description="Exactly this one"),
    "kind": Field(kind=str, choices=tuple(Kind)),
    "source": Field(kind=str, pattern=TAG_PATTERN),
    "tag": Field(kind=str, pattern=TAG_PATTERN),
    "target": Field(kind=str, pattern=HOST_PATTERN, description="Only those that this host of the target rules serves"),
    "limit": Field(kind=int, default=100, minimum=1, maximum=1_000, description="Most proxies of one page"),
    "next": Field(kind=str, pattern=ID_PATTERN, description="Page token (`next`) of the previous page"),
}


def proxies_page(table: ProxyTable, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Up to `limit` matching proxies, and the page token `next` (null at the end).

    A page reads at most 2,000 rows, so it may have few matches or none while more follow.
    """
    found: list[ProxyRecord] = []
    after, scanned = wanted["next"], 0
    while scanned < MAX_SCANNED and len(found) < wanted["limit"]:
        records, after = table.scan_page(after=after, limit=ROWS_PER_READ)
        scanned += ROWS_PER_READ
        found += [record for record in records if _fits(record, wanted)]
        if after is None:
            break
    if len(found) > wanted["limit"]:
        found = found[: wanted["limit"]]
        after = found[-1].id
    return {"proxies": [proxy_json(record) for record in found], "next": after}


def proxy_json(record: ProxyRecord) -> dict[str, Any]:
    """A proxy as answers have it, without its password."""
    return to_json(record) | {"score": round(score(record.check, record.lease).value, 4)}


def proxy_schema(**members: Schema) -> Schema:
    """The schema of `proxy_json`, with further members."""
    return object_(**json_schema(ProxyRecord)["properties"], score=FRACTION, **members)


def _fits(record: ProxyRecord, wanted: Mapping[str, Any]) -> bool:
    facts = {
        "status": record.status,
        "protocol": record.proxy.protocol,
        "country": record.check.country,
        "anonymity": record.check.anonymity,
        "kind": record.kind,
    }
    if any(wanted[name] is not None and value != wanted[name] for name, value in facts.items()):
        return False
    if wanted["target"] is not None:
        fact = record.check.targets.get(wanted["target"])
        if fact is None or fact.verdict != TargetVerdict.OK:
            return False
    return (wanted["source"] is None or wanted["source"] in record.sources) and (
        wanted["tag"] is None or wanted["tag"] in record.tags
    )
