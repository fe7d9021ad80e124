"""Is this answer the page, or a ban? Rules as data: statuses, the signs of challenge pages, the target's own texts. Pure.

A ban page is never a result. What a target says of itself (404, 500) is not the proxy's fault, and a proxy's 407 is not the
target's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

from proxypool_client import clock
from proxypool_client.outcome import Outcome

MAX_LOOKED_AT_BYTES: Final = 64 * 1024  # a challenge page says so at its top
SMALL_PAGE_BYTES: Final = 16 * 1024  # a page that says more than a challenge is larger
MAX_RETRY_AFTER_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a target's pages must and must not contain. Texts are looked for as they stand, in the first 64 KB as UTF-8."""

    must_contain: tuple[str, ...] = ()
    must_not_contain: tuple[str, ...] = ()
    empty_is_fine: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What an answer is: its outcome, why in one word, and the wait that the target asked for."""

    outcome: Outcome
    reason: str = ""
    retry_after_seconds: int | None = None


_SIGNS: Final[tuple[tuple[str, str, Outcome], ...]] = (
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
"""(text in lower case, whose page it is, outcome): signs of challenge pages, looked for on failed pages and on small ones."""

_WIDGETS: Final[tuple[tuple[str, str, Outcome], ...]] = (
    ("g-recaptcha", "recaptcha", Outcome.CAPTCHA),
    ("h-captcha", "hcaptcha", Outcome.CAPTCHA),
    ("cf-turnstile", "turnstile", Outcome.CAPTCHA),
)
"""The same for what honest forms have, too: looked for on failed pages alone."""

_HEADERS: Final[tuple[tuple[str, str, str, Outcome], ...]] = (
    ("cf-mitigated", "challenge", "cloudflare", Outcome.CAPTCHA),
    ("x-amzn-waf-action", "captcha", "aws_waf", Outcome.CAPTCHA),
    ("x-amzn-waf-action", "challenge", "aws_waf", Outcome.CAPTCHA),
)
_DENIED: Final = frozenset({401, 403, 451})
_BODYLESS: Final = frozenset({204, 205, 304})


def find(
    status: int, headers: Mapping[str, str], body: bytes, *, rule: Rule | None = None, now: datetime | None = None
) -> Finding:
    """What an answer is. `headers` by lower-case name; `now` is for a Retry-After that is a date."""
    if status == 407:
        return Finding(outcome=Outcome.CREDENTIALS, reason="http_407")
    wait = retry_after(headers.get("retry-after", ""), now or clock.now())
    if status == 429 or (status == 503 and wait is not None):
        return Finding(outcome=Outcome.RATE_LIMITED, reason=f"http_{status}", retry_after_seconds=wait)
    text = body[:MAX_LOOKED_AT_BYTES].decode("utf-8", "replace")
    challenge = _challenge(status, headers, text, len(body))
    if challenge is not None:
        return challenge
    if status in _DENIED:
        return Finding(outcome=Outcome.BLOCKED, reason=f"http_{status}")
    if status >= 500:
        return Finding(outcome=Outcome.SERVER_ERROR, reason=f"http_{status}")
    return _by_rule(status, text, rule or Rule())


def retry_after(text: str, now: datetime) -> int | None:
    """Seconds from a Retry-After header in either form (a day at most); None where it says nothing."""
    if text.isascii() and text.isdigit():
        return min(int(text[:9]), MAX_RETRY_AFTER_SECONDS)
    try:
        return max(0, min(MAX_RETRY_AFTER_SECONDS, int((parsedate_to_datetime(text) - now).total_seconds())))
    except (ValueError, TypeError):
        return None


def _challenge(status: int, headers: Mapping[str, str], text: str, size: int) -> Finding | None:
    for name, value, whose, outcome in _HEADERS:
        if headers.get(name, "").lower() == value:
            return Finding(outcome=outcome, reason=whose)
    if status < 400 and size > SMALL_PAGE_BYTES:
        return None
    lower = text.lower()
    for sign, whose, outcome in _SIGNS + (_WIDGETS if status >= 400 else ()):
        if sign in lower:
            return Finding(outcome=outcome, reason=whose)
    return None


def _by_rule(status: int, text: str, rule: Rule) -> Finding:
    if 200 <= status < 300:
        if not text.strip() and status not in _BODYLESS and not rule.empty_is_fine:
            return Finding(outcome=Outcome.BLOCKED, reason="empty")
        if any(sought not in text for sought in rule.must_contain):
            return Finding(outcome=Outcome.BLOCKED, reason="must_contain")
    if any(banned in text for banned in rule.must_not_contain):
        return Finding(outcome=Outcome.BLOCKED, reason="must_not_contain")
    return Finding(outcome=Outcome.OK)
