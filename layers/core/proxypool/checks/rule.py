"""Target rules: how a site answers those whom it serves, as data that the operator sets. Pure.

A rule's verdict belongs to one proxy and one host. It never touches the proxy's status or score: a site that bans a proxy
says nothing of the proxy elsewhere, and a site that is down says nothing of anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proxypool.checks.check import TargetVerdict
from proxypool.errors import AddressRefused
from proxypool.network.address import parse_public_url
from proxypool.web import Field

MAX_RULES: Final = 8
MAX_TEXTS: Final = 8
MAX_TEXT_CHARS: Final = 200

RULE_FIELDS: Final = {
    "url": Field(kind=str, required=True, description="the page that is asked for; its host is the target"),
    "status": Field(
        kind=int, default=200, minimum=200, maximum=599, description="what it answers those whom it serves"
    ),
    "contains": Field(
        kind=list, default=(), max_items=MAX_TEXTS, description="texts that its page has then, all of them"
    ),
    "lacks": Field(
        kind=list, default=(), max_items=MAX_TEXTS, description="signs of a ban: texts that it has not then"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One page of one host, and what its answer must be."""

    host: str
    port: int
    scheme: str
    path: str
    status: int = 200
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The page."""
        return f"{self.scheme}://{self.host}:{self.port}{self.path}"


def read_rule(value: Mapping[str, Any], *, allow_loopback: bool = False) -> Rule:
    """The rule in the fields of RULE_FIELDS; raises ValueError with what is wrong.

    The URL is vetted by its spelling: no address outside of the public ranges, no local name.
    """
    try:
        url = parse_public_url(str(value.get("url")), allow_http=True, allow_loopback=allow_loopback)
    except AddressRefused as error:
        raise ValueError(f"url: {error.reason}") from error
    status = int(value.get("status") or 200)
    return Rule(host=url.host, port=url.port, scheme=url.scheme, path=url.target, status=status,
                contains=_texts(value, "contains"), lacks=_texts(value, "lacks"))  # fmt: skip


def read_rules(values: Iterable[Mapping[str, Any]], *, allow_loopback: bool = False) -> tuple[Rule, ...]:
    """At most eight rules, one per host; raises ValueError with what is wrong."""
    rules = tuple(read_rule(value, allow_loopback=allow_loopback) for value in values)
    if len(rules) > MAX_RULES:
        raise ValueError(f"at most {MAX_RULES} rules")
    if len({rule.host for rule in rules}) < len(rules):
        raise ValueError("one rule per host")
    return rules


def judge_answer(rule: Rule, status: int, body: bytes) -> TargetVerdict:
    """What the target's answer says: served, banned, or (its own errors) nothing about the proxy."""
    text = body.decode("utf-8", "replace")
    if any(sign in text for sign in rule.lacks):
        return TargetVerdict.BANNED
    if status == rule.status:
        return TargetVerdict.OK if all(sign in text for sign in rule.contains) else TargetVerdict.BANNED
    return TargetVerdict.FAILED if status >= 500 else TargetVerdict.BANNED


def _texts(value: Mapping[str, Any], name: str) -> tuple[str, ...]:
    texts = tuple(value.get(name) or ())
    if not all(0 < len(text) <= MAX_TEXT_CHARS for text in texts):
        raise ValueError(f"{name}: texts have from 1 to {MAX_TEXT_CHARS} characters")
    return texts
