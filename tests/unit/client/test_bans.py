"""Responses classified as pages, bans and errors."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from proxypool_client.bans import Rule, classify_response, retry_after
from proxypool_client.outcome import Outcome

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
PAGE = b"<html><h1>Shoes</h1><p>price 9.99</p></html>"


@pytest.mark.parametrize(
    ("status", "headers", "body", "outcome", "reason"),
    [
        (200, {}, PAGE, Outcome.OK, ""),
        (404, {}, b"not here", Outcome.OK, ""),  # a result, not a ban
        (410, {}, b"", Outcome.OK, ""),
        (204, {}, b"", Outcome.OK, ""),
        (200, {}, b"  \n", Outcome.BLOCKED, "empty"),
        (407, {}, b"", Outcome.CREDENTIALS, "http_407"),  # sent by the proxy, not by the target
        (403, {}, b"no", Outcome.BLOCKED, "http_403"),
        (451, {}, b"no", Outcome.BLOCKED, "http_451"),
        (429, {}, b"", Outcome.RATE_LIMITED, "http_429"),
        (503, {"retry-after": "5"}, b"", Outcome.RATE_LIMITED, "http_503"),
        (503, {}, b"down", Outcome.SERVER_ERROR, "http_503"),
        (500, {}, b"", Outcome.SERVER_ERROR, "http_500"),
        (403, {}, b"<title>Just a moment...</title>", Outcome.CAPTCHA, "cloudflare"),
        (200, {"cf-mitigated": "challenge"}, PAGE, Outcome.CAPTCHA, "cloudflare"),
        (200, {}, b"<script src='//captcha-delivery.com/c.js'>", Outcome.CAPTCHA, "datadome"),
        (200, {}, b"<form><div class='g-recaptcha'></div></form>", Outcome.OK, ""),  # an ordinary login form
        (403, {}, b"<form><div class='g-recaptcha'></div></form>", Outcome.CAPTCHA, "recaptcha"),
        (200, {}, PAGE + b"x" * 20_000 + b"captcha-delivery.com", Outcome.OK, ""),  # a page about it is a page
    ],
)
def test_a_response_is_classified_by_status_headers_and_body(
    status: int, headers: dict[str, str], body: bytes, outcome: Outcome, reason: str
) -> None:
    found = classify_response(status, headers, body, now=NOW)

    assert (found.outcome, found.reason) == (outcome, reason)


def test_a_page_without_the_targets_own_text_is_a_ban() -> None:
    """Case 7: a 200 with an error as JSON."""
    rule = Rule(must_contain=("price",), must_not_contain=("limit",))

    assert classify_response(200, {}, PAGE, rule=rule).outcome is Outcome.OK
    assert classify_response(200, {}, b'{"err":"limit"}', rule=rule).reason == "must_contain"
    assert classify_response(200, {}, b"price, limit", rule=rule).reason == "must_not_contain"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7),
        ("Mon, 30 Nov 2026 09:00:07 GMT", 7),
        ("Mon, 30 Nov 2026 08:00:00 GMT", 0),
        ("999999999999", 86_400),
        ("soon", None),
        ("", None),
        ("-5", None),
    ],
)
def test_retry_after_is_parsed_in_both_forms(text: str, seconds: int | None) -> None:
    """Case 26."""
    assert retry_after(text, NOW) == seconds
