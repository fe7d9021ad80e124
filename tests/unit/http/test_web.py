"""Parsing and validation of requests."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from proxypool.errors import ApiError, Invalid, NotJson, PoolEmpty, TooLarge, UnsupportedMediaType
from proxypool.http import web

JSON = {"content-type": "application/json"}
FIELDS = {
    "ttl": web.Field(kind=int, default=60, minimum=1, maximum=900),
    "score": web.Field(kind=float, default=0.0, minimum=0, maximum=1),
    "country": web.Field(kind=str, pattern="[a-z]{2}"),
    "mode": web.Field(kind=str, default="a", choices=("a", "b")),
    "tags": web.Field(kind=list, default=(), pattern="[a-z0-9-]{1,32}", max_items=3),
    "fast": web.Field(kind=bool, default=False),
}


@pytest.mark.parametrize(
    "value", [-1, 0, 901, 1_000_000_000, 10**400, -(10**400), 60.0, "60", True, [60]], ids=lambda one: str(one)[:11]
)
def test_a_number_that_is_not_a_plain_integer_in_range_names_its_field(value: object) -> None:
    """Input 55."""
    with pytest.raises(Invalid) as caught:
        web.read_fields({"ttl": value}, FIELDS)
    assert [error["field"] for error in caught.value.extra["errors"]] == ["ttl"]


@pytest.mark.parametrize("value", [-0.1, 1.1, 10**400, -(10**400), float("inf")], ids=lambda one: str(one)[:11])
def test_a_fraction_out_of_range_names_its_field_however_large_it_is(value: float) -> None:
    """JSON has integers that no float can hold, and 1e400 is infinite."""
    with pytest.raises(Invalid) as caught:
        web.read_fields({"score": value}, FIELDS)
    assert [error["field"] for error in caught.value.extra["errors"]] == ["score"]


@pytest.mark.parametrize(
    "body",
    [
        {"country": "us}\n"},  # would end the hash tag of a key
        {"tags": ["a", "a"]},
        {"tags": ["a", "b", "c", "d"]},
        {"tags": ["A{x}"]},
        {"tags": "a"},
        {"mode": "c"},
        {"fast": 1},
        {"score": 1.01},
        {"score": 10**400},  # no float holds it
    ],
)
def test_a_value_that_violates_its_constraints_is_refused(body: dict[str, Any]) -> None:
    """Inputs 56, 63."""
    with pytest.raises(Invalid):
        web.read_fields(body, FIELDS)


def test_all_unknown_and_invalid_members_are_named() -> None:
    with pytest.raises(Invalid) as caught:
        web.read_fields({"owner": "me", "ttl": 0}, FIELDS)
    assert {error["field"] for error in caught.value.extra["errors"]} == {"owner", "ttl"}


def test_missing_members_get_defaults_and_lists_become_tuples() -> None:
    assert web.read_fields({"tags": ["x"], "score": 1}, FIELDS) == {
        "ttl": 60, "score": 1.0, "country": None, "mode": "a", "tags": ("x",), "fast": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "event",
    [
        {"body": "{"},
        {"body": "[]"},
        {"body": '{"a":1,"a":2}'},
        {"body": '{"a":NaN}'},
        {"body": '{"a":["\\ud83d"]}'},  # half an emoji
        {"body": '{"\\udc00":1}'},
        {"body": '{"a":' + "[" * 20 + "]" * 20 + "}"},
        {"body": "{}", "headers": JSON | {"content-encoding": "gzip"}},
        {"body": "not base64!", "isBase64Encoded": True},
        {"body": base64.b64encode(b'{"a":"\xff"}').decode(), "isBase64Encoded": True},
        {"body": ""},
    ],
    ids=[
        "syntax",
        "list",
        "twice",
        "nan",
        "surrogate",
        "surrogate name",
        "deep",
        "encoded",
        "base64",
        "utf-8",
        "empty",
    ],
)
def test_a_body_that_is_not_a_strict_json_object_is_400(event: dict[str, Any]) -> None:
    """Input 62."""
    with pytest.raises(NotJson):
        web.body_object({"headers": JSON, **event})


@pytest.mark.parametrize(
    "headers",
    [
        {},  # a web page can send a Blob without a type
        {"content-type": ""},
        {"content-type": "text/plain"},  # these three need no CORS preflight
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "text/plain; application/json"},
    ],
)
def test_another_or_no_content_type_is_415(headers: dict[str, str]) -> None:
    with pytest.raises(UnsupportedMediaType):
        web.body_object({"body": "{}", "headers": headers})


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"])
def test_all_json_content_types_are_accepted(kind: str) -> None:
    assert web.body_object({"body": '{"a":1}', "headers": {"content-type": kind}}) == {"a": 1}


def test_a_large_body_is_413() -> None:
    """Input 62."""
    with pytest.raises(TooLarge):
        web.body_object({"headers": JSON, "body": '{"a":"' + "x" * web.MAX_BODY_BYTES + '"}'})


def test_a_problem_has_its_type_its_members_and_a_limited_retry_after() -> None:
    response = web.problem(PoolEmpty("none", retry_after_seconds=900, reasons={"held": 3}))
    assert response["statusCode"] == 409
    assert response["headers"]["retry-after"] == "30"
    assert '"type":"pool_empty"' in response["body"]
    assert '"reasons":{"held":3}' in response["body"]


def test_error_types_are_unique() -> None:
    types = [error.type for error in ApiError.__subclasses__()]
    assert len(types) == len(set(types))


def test_the_name_of_an_unknown_member_is_truncated() -> None:
    """Input 62."""
    with pytest.raises(Invalid) as caught:
        web.read_fields({"x" * 60_000: 1}, FIELDS)
    assert caught.value.extra["errors"] == [{"field": "x" * 64, "message": "unknown"}]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 1),
        ("900", 900),
        ("0", None),
        ("901", None),
        ("01", None),
        ("+1", None),
        ("1.0", None),
        ("٣", None),
        ("", None),
    ],
)
def test_query_parameters_are_parsed_as_strictly_as_json(text: str, seconds: int | None) -> None:
    """Input 55."""
    event = {"queryStringParameters": {"ttl": text, "fast": "true"}}
    if seconds is None:
        with pytest.raises(Invalid):
            web.read_query(event, FIELDS)
    else:
        assert web.read_query(event, FIELDS) | {"ttl": seconds, "fast": True} == web.read_query(event, FIELDS)


@pytest.mark.parametrize(
    ("stage", "raw", "path"),
    [
        ("$default", "/leases", "/leases"),
        ("$default", "/prod/leases", "/prod/leases"),
        ("prod", "/prod/leases", "/leases"),
        ("prod", "/prod", ""),
        ("prod", "/prod/prod/leases", "/prod/leases"),  # once
        ("prod", "/production/leases", "/production/leases"),  # a whole segment
        ("prod", "/leases", "/leases"),  # a custom domain may map the stage to its root
        ("", "/leases", "/leases"),
    ],
)
def test_the_stage_is_removed_from_the_path(stage: str, raw: str, path: str) -> None:
    """API Gateway adds each stage but $default as prefix of rawPath."""
    assert web.path({"rawPath": raw, "requestContext": {"stage": stage}}) == path


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert web.parse_object(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}
