"""Target rules: the expected answer of a site, configured by the operator. Pure.

The verdict of a rule belongs to one proxy and one host. It does not affect the proxy's status or score: a ban at one
site does not imply a ban elsewhere, and a site that is down is not the proxy's fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proxypool.checks.check import TargetVerdict
from proxypool.errors import AddressRefused
from proxypool.http.web import Field
from proxypool.network.address import parse_public_url

MAX_RULES: Final = 8
MAX_TEXTS: Final = 8
MAX_TEXT_CHARS: Final = 200

RULE_FIELDS: Final = {
    "url": Field(kind=str, required=True, description="URL to request; its host is the target"),
    "status": Field(kind=int, default=200, minimum=200, maximum=599, description="expected status"),
    "contains": Field(
        kind=list, default=(), max_items=MAX_TEXTS, description="texts that the expected page contains, all of them"
    ),
    "lacks": Field(
        kind=list,
        default=(),
        max_items=MAX_TEXTS,
        description="signs of a ban: texts that the expected page does not contain",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRule:
    """A page of one host, and the expected status and content of its answer."""

    host: str
    port: int
    scheme: str
    path: str
    status: int = 200
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The page's absolute URL."""
        return f"{self.scheme}://{self.host}:{self.port}{self.path}"


def parse_rule(value: Mapping[str, Any], *, allow_loopback: bool = False) -> TargetRule:
    """The rule in the fields of RULE_FIELDS; raises ValueError with the problem.

    The URL is checked syntactically: no address outside the public ranges, no local host name.
    """
    try:
        url = parse_public_url(str(value.get("url")), allow_http=True, allow_loopback=allow_loopback)
    except AddressRefused as error:
        raise ValueError(f"url: {error.reason}") from error
    status = int(value.get("status") or 200)
    return TargetRule(host=url.host, port=url.port, scheme=url.scheme, path=url.target, status=status,
                contains=_texts(value, "contains"), lacks=_texts(value, "lacks"))  # fmt: skip


def parse_rules(values: Iterable[Mapping[str, Any]], *, allow_loopback: bool = False) -> tuple[TargetRule, ...]:
    """At most MAX_RULES rules, one per host; raises ValueError with the problem."""
    rules = tuple(parse_rule(value, allow_loopback=allow_loopback) for value in values)
    if len(rules) > MAX_RULES:
        raise ValueError(f"at most {MAX_RULES} rules")
    if len({rule.host for rule in rules}) < len(rules):
        raise ValueError("one rule per host")
    return rules


def target_verdict(rule: TargetRule, status: int, body: bytes) -> TargetVerdict:
    """OK, BANNED, or FAILED for a server error of the target (which is not the proxy's fault)."""
    page = body.decode("utf-8", "replace")
    if any(text in page for text in rule.lacks):
        return TargetVerdict.BANNED
    if status == rule.status:
        return TargetVerdict.OK if all(text in page for text in rule.contains) else TargetVerdict.BANNED
    return TargetVerdict.FAILED if status >= 500 else TargetVerdict.BANNED


def _texts(value: Mapping[str, Any], name: str) -> tuple[str, ...]:
    texts = tuple(value.get(name) or ())
    if not all(0 < len(text) <= MAX_TEXT_CHARS for text in texts):
        raise ValueError(f"{name}: each text must have 1 to {MAX_TEXT_CHARS} characters")
    return texts
