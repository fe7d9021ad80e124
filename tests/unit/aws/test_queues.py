"""Queue messages: versioned, strict about known members, tolerant of unknown ones."""

from __future__ import annotations

import json

import pytest
from proxypool.aws.queues import ScrapeMessage, ValidateMessage, decode, encode
from proxypool.errors import MessageError


def test_a_message_is_decoded_as_it_was_encoded() -> None:
    message = ValidateMessage(proxy_id="ab", next_check_at=7, sweep_id="s")
    assert decode(encode(message), ValidateMessage) == message


def test_members_of_a_newer_version_are_ignored() -> None:
    """Input 82."""
    assert decode('{"v":1,"source_id":"a","later":[1]}', ScrapeMessage) == ScrapeMessage(source_id="a")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not an object"),
        ('{"v":2,"source_id":"a"}', "unknown version"),
        ('{"source_id":"a"}', "unknown version"),
        ('{"v":1}', "source_id"),
        ('{"v":1,"source_id":5}', "source_id"),
        ('{"v":1,"source_id":"a","offset":true}', "offset"),
        ('{"v":1,"source_id":"a","offset":-1}', "offset"),
        ('{"v":1,"source_id":"a","offset":' + "9" * 40 + "}", "offset"),
        ('{"v":1,"source_id":""}', "source_id"),  # DynamoDB takes no such key, and no other of the same call
        ('{"v":1,"source_id":"' + "a" * 3_000 + '"}', "source_id"),
        ('{"v":1,"source_id":"\\ud800"}', "source_id"),
    ],
)
def test_an_invalid_message_is_refused_with_the_reason(body: str, reason: str) -> None:
    """Input 74."""
    with pytest.raises(MessageError, match=reason):
        decode(body, ScrapeMessage)


def test_no_message_carries_credentials() -> None:
    """I19: queue bodies hold ids only."""
    assert set(json.loads(encode(ValidateMessage(proxy_id="a", next_check_at=1)))) == {
        "v", "proxy_id", "next_check_at", "sweep_id",
    }  # fmt: skip
