"""The judge's answer: building, verifying and parsing it."""

from __future__ import annotations

import json

import pytest
from proxypool.checks.judge import answer, echo

KEY, NONCE = b"key", "0" * 32
BODY = answer.build_answer(
    KEY, nonce=NONCE, peer="198.51.100.1", headers=[("Via", "1.1 x")], scheme="http", country="DE"
)
OTHER = answer.build_answer(KEY, nonce="1" * 32, peer="198.51.100.1", headers=[], scheme="http", country=None)
UNSIGNED = answer.build_answer(None, nonce=NONCE, peer="198.51.100.1", headers=[], scheme="http", country=None)


def test_a_signed_answer_contains_the_judges_observation() -> None:
    """Input 39."""
    observation = answer.parse_answer(KEY, BODY, NONCE)

    assert (observation.peer, observation.country, observation.headers, observation.signed) == (
        "198.51.100.1",
        "de",
        (("via", "1.1 x"),),
        True,
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>account overdue</html>", "content_mismatch"),  # a web server
        (json.dumps({"origin": "198.51.100.1"}).encode(), "nonce_missing"),  # another echo service
        (BODY.replace(b"198.51.100.1", b"198.51.100.2"), "forged"),  # another exit IP
        (UNSIGNED, "unsigned"),
        (OTHER, "replayed"),
        (BODY + b"<script>x</script>", "tampered"),
        (b"<b>ad</b>" + BODY, "tampered"),
        (b"[" * 100_000, "content_mismatch"),  # deeper than the parser's limit
    ],
)
def test_an_invalid_body_is_rejected_with_its_reason(body: bytes, reason: str) -> None:
    """Inputs 39, 40, 43; case 1."""
    with pytest.raises(answer.InvalidAnswer) as error:
        answer.parse_answer(KEY, body, NONCE)

    assert error.value.reason == reason


def test_without_a_key_the_answer_is_parsed_as_unsigned() -> None:
    """Input 39: an unsigned answer is never marked as signed."""
    assert answer.parse_answer(None, UNSIGNED, NONCE).signed is False


def test_x_forwarded_for_inside_the_origin_of_an_echo_is_restored() -> None:
    """Input 42: httpbin hides X-Forwarded-For and puts its addresses before the peer's."""
    body = json.dumps(
        {"origin": "203.0.113.9, 198.51.100.7", "headers": {"Via": "1.1 x"}, "url": f"http://e/get?n={NONCE}"}
    )

    observation = echo.parse_echo(body.encode(), NONCE)

    assert (observation.peer, observation.signed) == ("198.51.100.7", False)
    assert observation.headers == (("via", "1.1 x"), ("x-forwarded-for", "203.0.113.9"))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "content_mismatch"),
        (b'{"origin": "198.51.100.7"}', "nonce_missing"),
        (b'{"n": "' + NONCE.encode() + b'"}', "content_mismatch"),
    ],
)
def test_an_echo_without_our_nonce_or_an_address_is_rejected(body: bytes, reason: str) -> None:
    """Case 1, input 40."""
    with pytest.raises(answer.InvalidAnswer) as error:
        echo.parse_echo(body, NONCE)

    assert error.value.reason == reason
