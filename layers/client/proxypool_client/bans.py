"""Classifies responses: a page, or a ban. Rules as data: statuses, markers of challenge pages, the target's own texts. Pure.

A ban page is never a result. An error of the target itself (404, 500) is not the proxy's fault, and a 407 of the proxy is not
the target's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

from proxypool_client import clock
from proxypool_client.outcome import Outcome

MAX_SEARCHED_BYTES: Final = 64 * 1024  # markers of challenge pages are near the top
SMALL_PAGE_BYTES: Final = 16 * 1024  # larger pages have content besides a challenge
MAX_RETRY_AFTER_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Texts that a target's pages must or must not contain: case-sensitive, in the first 64 KB, decoded as UTF-8.

    `empty_is_fine` accepts a 2xx response without content, which is a ban otherwise (except 204 and 205).
    """

    must_contain: tuple[str, ...] = ()
    must_not_contain: tuple[str, ...] = ()
    empty_is_fine: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The classification of a response: its outcome, a reason in one word ("" for a page), and the target's Retry-After."""

    outcome: Outcome
    reason: str = ""
    retry_after_seconds: int | None = None


_MARKERS: Final[tuple[tuple[str, str, Outcome], ...]] = (
    ("cf-chl-", "cloudflare", Outcome.CAPTCHA),
    ("/cdn-cgi/challenge-platform/", "cloudflare", Outcome.CAPTCHA),
    ("<title>just a moment...</title>", "cloudflare", Outcome.CAPTCHA),
    ("<title>attention required! | cloudflare</title>", "cloudflare", Outcome.BLOCKED),
    ("_incapsula_resource", "imperva", Outcome.BLOCKED),
    ("captcha-delivery.com", "datadome", Outcome.CAPTCHA),
    ("px-captcha", "perimeterx", Outcome.CAPTCHA),
    ("_pxcaptcha", "perimeterx", Outcome.CAPTCHA),
    ("awswafcaptcha", "aws_waf", Outcome.CAPTCHA),
    ("errors.edgesuite.net", "akamai", Outcome.BLOCKED),
    ("unusual traffic from your computer network", "unusual_traffic", Outcome.CAPTCHA),
)
"""(text in lower case, vendor, outcome): markers of challenge pages, searched in error pages and in small pages."""

_WIDGETS: Final[tuple[tuple[str, str, Outcome], ...]] = (
    ("g-recaptcha", "recaptcha", Outcome.CAPTCHA),
    ("h-captcha", "hcaptcha", Outcome.CAPTCHA),
    ("cf-turnstile", "turnstile", Outcome.CAPTCHA),
)
"""The same for widgets that ordinary forms have, too: searched in error pages only."""

_HEADERS: Final[tuple[tuple[str, str, str, Outcome], ...]] = (
    ("cf-mitigated", "challenge", "cloudflare", Outcome.CAPTCHA),
    ("x-amzn-waf-action", "captcha", "aws_waf", Outcome.CAPTCHA),
    ("x-amzn-waf-action", "challenge", "aws_waf", Outcome.CAPTCHA),
)
_DENIED_STATUSES: Final = frozenset({401, 403, 451})
_NO_BODY_STATUSES: Final = frozenset({204, 205, 304})


def classify_response(
    status: int, headers: Mapping[str, str], body: bytes, *, rule: Rule | None = None, now: datetime | None = None
) -> Finding:
    """The outcome of a response through a leased proxy.

    `headers` have lower-case names, or are case-insensitive as those of httpx; `rule` is the target's own; `now` (default: the
    current time) is the reference for a Retry-After that is a date.
    """
    if status == 407:
        return Finding(outcome=Outcome.CREDENTIALS, reason="http_407")
    wait = retry_after(headers.get("retry-after", ""), now or clock.now())
    if status == 429 or (status == 503 and wait is not None):
        return Finding(outcome=Outcome.RATE_LIMITED, reason=f"http_{status}", retry_after_seconds=wait)
    text = body[:MAX_SEARCHED_BYTES].decode("utf-8", "replace")
    challenge = _challenge(status, headers, text, len(body))
    if challenge is not None:
        return challenge
    if status in _DENIED_STATUSES:
        return Finding(outcome=Outcome.BLOCKED, reason=f"http_{status}")
    if status >= 500:
        return Finding(outcome=Outcome.SERVER_ERROR, reason=f"http_{status}")
    return _apply_rule(status, text, rule or Rule())


def retry_after(text: str, now: datetime) -> int | None:
    """Seconds from a Retry-After header in either form, 0 to 86,400; None if it is empty or invalid."""
    if text.isascii() and text.isdigit():
        return min(int(text[:9]), MAX_RETRY_AFTER_SECONDS)
    try:
        return max(0, min(MAX_RETRY_AFTER_SECONDS, int((parsedate_to_datetime(text) - now).total_seconds())))
    except (ValueError, TypeError):
        return None


def _challenge(status: int, headers: Mapping[str, str], text: str, size: int) -> Finding | None:
    for name, value, vendor, outcome in _HEADERS:
        if headers.get(name, "").lower() == value:
            return Finding(outcome=outcome, reason=vendor)
    if status < 400 and size > SMALL_PAGE_BYTES:
        return None
    lower = text.lower()
    for marker, vendor, outcome in _MARKERS + (_WIDGETS if status >= 400 else ()):
        if marker in lower:
            return Finding(outcome=outcome, reason=vendor)
    return None


def _apply_rule(status: int, text: str, rule: Rule) -> Finding:
    if 200 <= status < 300:
        if not text.strip() and status not in _NO_BODY_STATUSES and not rule.empty_is_fine:
            return Finding(outcome=Outcome.BLOCKED, reason="empty")
        if any(required not in text for required in rule.must_contain):
            return Finding(outcome=Outcome.BLOCKED, reason="must_contain")
    if any(forbidden in text for forbidden in rule.must_not_contain):
        return Finding(outcome=Outcome.BLOCKED, reason="must_not_contain")
    return Finding(outcome=Outcome.OK)
