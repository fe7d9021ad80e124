"""The judge's answer and its reader."""

from __future__ import annotations

import json

import pytest
from proxypool.checks import echo, judge

KEY, NONCE = b"key", "0" * 32
BODY = judge.answer(KEY, nonce=NONCE, peer="198.51.100.1", headers=[("Via", "1.1 x")], scheme="http", country="DE")
OTHER = judge.answer(KEY, nonce="1" * 32, peer="198.51.100.1", headers=[], scheme="http", country=None)
UNSIGNED = judge.answer(None, nonce=NONCE, peer="198.51.100.1", headers=[], scheme="http", country=None)


def test_a_signed_answer_tells_what_the_judge_saw() -> None:
    """Input 39."""
    seen = judge.read(KEY, BODY, NONCE)

    assert (seen.peer, seen.country, seen.headers, seen.signed) == ("198.51.100.1", "de", (("via", "1.1 x"),), True)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>account overdue</html>", "content_mismatch"),  # a web server
        (json.dumps({"origin": "198.51.100.1"}).encode(), "nonce_missing"),  # an echo of another kind
        (BODY.replace(b"198.51.100.1", b"198.51.100.2"), "forged"),  # a better exit
        (UNSIGNED, "unsigned"),
        (OTHER, "replayed"),
        (BODY + b"<script>x</script>", "tampered"),
        (b"<b>ad</b>" + BODY, "tampered"),
        (b"[" * 100_000, "content_mismatch"),  # deeper than the parser goes
    ],
)
def test_any_other_body_is_refused_with_its_reason(body: bytes, reason: str) -> None:
    """Inputs 39, 40, 43; case 1."""
    with pytest.raises(judge.JudgeRefusal) as refused:
        judge.read(KEY, body, NONCE)

    assert refused.value.reason == reason


def test_without_a_key_the_answer_is_read_and_says_unsigned() -> None:
    """Input 39: what nobody signed is never called signed."""
    assert judge.read(None, UNSIGNED, NONCE).signed is False


def test_an_echo_that_folds_the_forwarded_address_into_the_origin_still_shows_it() -> None:
    """Input 42: httpbin hides X-Forwarded-For and lists its addresses before the peer's."""
    body = json.dumps(
        {"origin": "203.0.113.9, 198.51.100.7", "headers": {"Via": "1.1 x"}, "url": f"http://e/get?n={NONCE}"}
    )

    seen = echo.read_echo(body.encode(), NONCE)

    assert (seen.peer, seen.signed) == ("198.51.100.7", False)
    assert seen.headers == (("via", "1.1 x"), ("x-forwarded-for", "203.0.113.9"))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "content_mismatch"),
        (b'{"origin": "198.51.100.7"}', "nonce_missing"),
        (b'{"n": "' + NONCE.encode() + b'"}', "content_mismatch"),
    ],
)
def test_an_echo_without_our_nonce_or_an_address_is_refused(body: bytes, reason: str) -> None:
    """Case 1, input 40."""
    with pytest.raises(judge.JudgeRefusal) as refused:
        echo.read_echo(body, NONCE)

    assert refused.value.reason == reason
