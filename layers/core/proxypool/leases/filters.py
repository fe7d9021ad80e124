"""The filters of POST /leases, one row each: API field, value in a ready member, comparison, condition in PoolLowFilters.

To add a filter: a row in FILTERS, its attribute in pool.Request, an example in tests/support/lease_filters.py, `make openapi`.

A ready member is `<layout 5><proxy id 20><exit IP>|<values>|`, and a value is a filter's key with what the proxy has:
`|h1|kr|l50|v1|rby|tpaid|ssource-1|`. A member that was written by an older table lacks the values of newer filters. It fits
each request that does not use them, and expire_leases replaces it, since the layout is another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha1
from typing import TYPE_CHECKING, Any, Final

from proxypool.errors import Invalid
from proxypool.http.web import Field, read_fields
from proxypool.leases.redis.keys import ANY_COUNTRY, MEMBER_ID, MEMBER_PREFIX, ready_set
from proxypool.proxies.proxy import Anonymity, Kind, Protocol

if TYPE_CHECKING:  # the lease function does not load records
    from proxypool.leases.pool import Request
    from proxypool.proxies.record import ProxyRecord

MAX_TAGS: Final = 10
_NAME: Final = "[a-z0-9-]{1,32}"
_FLAGS: Final = {"true": True, "false": False}


class Compare(StrEnum):
    """How a member's value is compared with the requested one; choose.lua implements both."""

    HAS = "has"  # the member has each of the requested values
    AT_MOST = "at_most"  # its number is not above the requested one


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Need:
    """One condition on a ready member."""

    key: str
    value: str
    compare: Compare

    @property
    def text(self) -> str:
        """As choose.lua takes it: `|rby|` (has) or `l50` (at most)."""
        return f"|{self.key}{self.value}|" if self.compare is Compare.HAS else f"{self.key}{self.value}"

    def fits(self, member: str) -> bool:
        """Whether the member meets it; False where the member has no such value."""
        values = member[MEMBER_ID.stop :]
        if self.compare is Compare.HAS:
            return self.text in values
        found = re.search(rf"\|{self.key}(\d+)", values)
        return found is not None and int(found[1]) <= int(self.value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Filter:
    """One filter. Without a `key` the ready sets or their scores answer it, and no value is stored in the member.

    A `key` (one letter) identifies what is stored: if the meaning of the values changes, take another letter.
    """

    name: str  # in the API and in pool.Request
    field: Field
    key: str = ""
    values: Callable[[ProxyRecord], Iterable[Any]] = lambda record: ()
    compare: Compare = Compare.HAS
    read: Callable[[Any], Any] = lambda value: value  # from the API's value to the one in pool.Request
    encode: Callable[[Any], str] = lambda value: str(int(value) if isinstance(value, bool) else value)
    condition: str | None = ""  # its name in PoolLowFilters: "" for the same, None if it cannot be used there

    def needs(self, value: Any) -> list[Need]:
        """The conditions for a requested value (a tuple: for each of its items)."""
        wanted = value if isinstance(value, tuple) else (value,)
        return [Need(key=self.key, value=self.encode(one), compare=self.compare) for one in wanted]

    def parse(self, text: str) -> Any:
        """The value of a condition in PoolLowFilters, as pool.Request has it; raises ValueError."""
        value: Any = text
        if self.field.kind is bool:
            if text not in _FLAGS:
                raise ValueError(f"must be true or false, not {text!r}")
            value = _FLAGS[text]
        elif self.field.kind is int and text.isdecimal():
            value = int(text)
        elif self.field.kind is list:
            value = [text]
        try:
            return self.read(read_fields({self.name: value}, {self.name: self.field})[self.name])
        except Invalid as error:
            raise ValueError(f"{error.problem()['errors'][0]['message']}, not {text!r}") from error


def exit_ip(record: ProxyRecord) -> str:
    """The exit of a member: the proxy's id where it is unknown, "" for a gateway, whose exit changes from lease to lease."""
    return "" if record.slots > 1 else record.check.exit_ip or record.id


def _is_ipv4(address: str) -> bool:
    return "." in address and ":" not in address


FILTERS: Final = (
    Filter(
        name="protocol", read=Protocol,
        field=Field(kind=str, choices=tuple(Protocol), description="How you speak to the proxy; any if absent"),
    ),
    Filter(
        name="https", key="h", values=lambda record: (record.check.https,),
        field=Field(kind=bool, default=False, description="Only proxies that carry HTTPS"),
    ),
    Filter(
        name="country",
        field=Field(kind=str, pattern="[a-z]{2}", description="Of the exit: ISO 3166 alpha-2, lower case"),
    ),
    Filter(
        name="region", key="r", values=lambda record: (record.check.region,) if record.check.region else (),
        field=Field(kind=str, pattern="[a-z0-9-]{1,8}", description="Of the exit: its country's subdivision"),
    ),
    Filter(
        name="anonymity", read=Anonymity,
        field=Field(kind=str, choices=tuple(Anonymity), description="The least that will do"),
    ),
    Filter(
        name="kind", key="k", values=lambda record: (record.kind,), read=Kind, encode=lambda kind: str(kind)[0],
        field=Field(kind=str, choices=tuple(Kind), description="Of the exit's network, as its source says"),
    ),
    Filter(name="min_score", condition=None, field=Field(kind=float, default=0.0, minimum=0, maximum=1)),
    Filter(
        name="max_latency_ms", key="l", compare=Compare.AT_MOST,
        values=lambda record: () if record.check.latency_ms is None else (round(record.check.latency_ms),),
        field=Field(kind=int, minimum=1, maximum=99_998),
    ),
    Filter(
        name="ipv4_only", key="v", values=lambda record: (_is_ipv4(exit_ip(record)),),
        field=Field(kind=bool, default=False, description="Only exits with an IPv4 address"),
    ),
    Filter(
        name="tags", key="t", values=lambda record: sorted(record.tags), condition="tag",
        read=lambda tags: tuple(sorted(tags)),
        field=Field(kind=list, default=(), pattern=_NAME, max_items=MAX_TAGS, description="All of them"),
    ),
    Filter(
        name="source", key="s", values=lambda record: sorted(record.sources),
        field=Field(kind=str, pattern=_NAME, description="The id of a source that lists it"),
    ),
)  # fmt: skip
CONDITIONS: Final = {row.condition or row.name: row for row in FILTERS if row.condition is not None}
"""The filters that PoolLowFilters can use, by their names there."""


def layout_version(filters: Iterable[Filter]) -> str:
    """The version of the members that these rows write: another one for any other set of values."""
    stored = ",".join(sorted(f"{row.key}={row.name}" for row in filters if row.key))
    return (
        MEMBER_PREFIX + sha1(stored.encode(), usedforsecurity=False).hexdigest()[: MEMBER_ID.start - len(MEMBER_PREFIX)]
    )


LAYOUT_VERSION: Final = layout_version(FILTERS)


def request_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of pool.Request for the filters among the values of a request; None means not given."""
    return {row.name: row.read(values[row.name]) for row in FILTERS if values[row.name] is not None}


def request_needs(request: Request) -> list[str]:
    """The conditions of a request on a ready member, as choose.lua takes them."""
    asked = ((row, getattr(request, row.name)) for row in FILTERS if row.key)
    return [need.text for row, value in asked if value for need in row.needs(value)]


def ready_member(record: ProxyRecord) -> str:
    """A proxy's text in the ready sets."""
    values = (f"{row.key}{row.encode(value)}" for row in FILTERS if row.key for value in row.values(record))
    return f"{LAYOUT_VERSION}{record.id}{exit_ip(record)}|{'|'.join(values)}|"


def ready_sets(protocol: Protocol | None, country: str | None, anonymity: Anonymity) -> list[str]:
    """The names (behind the tag) of the ready sets that hold what is wanted; None stands for any."""
    return [
        ready_set(one, country or ANY_COUNTRY, level.rank)
        for one in ((protocol,) if protocol else Protocol)
        for level in Anonymity
        if level.rank >= anonymity.rank
    ]
