"""The functions lease and index_pool as Lambda calls them, on a real Valkey."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest
from proxypool.leases import api
from proxypool.leases.index import Index
from proxypool.leases.pool import Pool
from proxypool.leases.project import project
from proxypool.proxies.table import to_item
from proxypool.settings import Settings

from functions.index_pool import app as index_pool
from functions.lease import app as lease
from tests.support.leases import a_pool, a_record, an_event
from tests.support.servers import ROOT, free_port

SETTINGS = Settings(allow_loopback=True)
ID = "0" * 32 + ".1"


def call(pool: Pool, event: dict[str, Any], settings: Settings = SETTINGS) -> tuple[int, Any]:
    """The status and the body of an answer."""
    response = api.answer(event, pool, settings)
    return response["statusCode"], json.loads(response.get("body", "null"))


def stream_record(number: int, sequence: int, **changes: Any) -> dict[str, Any]:
    """A committed change of a proxy, as the table's stream tells it."""
    image = {
        name: value for name, value in to_item(a_record(number, **changes)).serialize().items() if value is not None
    }
    return {"eventName": "MODIFY", "dynamodb": {"NewImage": image, "SequenceNumber": str(sequence)}}


def test_a_lease_goes_its_whole_way_by_http(valkey_url: str) -> None:
    """Grant, look, renew, report, release, and the 404 behind it."""
    pool = a_pool(valkey_url, a_record(1))

    status, granted = call(pool, an_event("POST /leases", {"protocol": "http", "ttl_seconds": 5}))
    path = {"lease_id": granted["id"]}

    assert status == 201
    assert set(granted) == {"id", "proxy_id", "proxy_url", "protocol", "exit_ip", "country", "anonymity", "score",
                            "fence", "expires_at", "ttl_seconds"}  # fmt: skip
    assert granted["proxy_url"] == "http://user:secret@10.0.0.1:8080"
    assert call(pool, an_event("GET /leases/{id}", **path)) == (200, granted)
    assert call(pool, an_event("GET /leases")) == (200, {"leases": [granted]})
    assert call(pool, an_event("POST /leases/{id}/renew", {"ttl_seconds": 60}, **path))[1]["ttl_seconds"] == 60
    assert call(pool, an_event("POST /leases/{id}/report", {"outcome": "blocked"}, **path))[0] == 204
    assert call(pool, an_event("POST /leases/{id}/release", {"outcome": "ok"}, **path))[0] == 204
    assert call(pool, an_event("DELETE /leases/{id}", **path))[0] == 404
    assert call(pool, an_event("POST /leases"))[0] == 201


def test_a_repeated_key_answers_200_with_the_same_lease(valkey_url: str) -> None:
    """I2, input 58."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    event = an_event("POST /leases", {"count": 1}, idempotency_key="k-1")

    first, second = call(pool, event), call(pool, event)

    assert (first[0], second[0]) == (201, 200)
    assert first[1] == second[1]
    assert (
        call(pool, an_event("POST /leases", {"count": 2}, idempotency_key="k-1"))[1]["type"] == "idempotency_conflict"
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *(({"ttl_seconds": value}, "ttl_seconds") for value in (-1, 0, 901, 10**9, "60", True, 1.5)),
        *(({"count": value}, "count") for value in (0, 51, 10**6)),
        ({"country": "de}\n"}, "country"),
        ({"country": "*"}, "country"),
        ({"protocol": "http:*"}, "protocol"),
        ({"exclude": ["a" * 20, "a" * 20]}, "exclude"),
        ({"exclude": ["x}"]}, "exclude"),
        ({"min_score": 1.5}, "min_score"),
        ({"at_least": 2}, "at_least"),
        ({"owner": "bob"}, "owner"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named(valkey_url: str, body: dict[str, Any], field: str) -> None:
    """Inputs 55, 56, 61, 63."""
    status, answer = call(a_pool(valkey_url, a_record(1)), an_event("POST /leases", body))

    assert status == 422
    assert [error["field"] for error in answer["errors"]] == [field]


@pytest.mark.parametrize("body", ['{"count": NaN}', "[" * 100, '{"count":1,"count":2}', "[]", "{", '"x"'])
def test_what_is_not_a_json_object_is_refused(valkey_url: str, body: str) -> None:
    """Inputs 55, 62."""
    assert call(a_pool(valkey_url, a_record(1)), an_event("POST /leases", body))[0] == 400


def test_unknown_foreign_and_malformed_ids_look_the_same(valkey_url: str) -> None:
    """I3, inputs 57 and 63."""
    pool = a_pool(valkey_url, a_record(1))
    foreign = call(pool, an_event("POST /leases", x_proxypool_owner="bob"))[1]["id"]

    answers = [call(pool, an_event("DELETE /leases/{id}", lease_id=name)) for name in (foreign, ID, "}\n", "..")]

    assert answers[0][0] == 404
    assert all(answer == answers[0] for answer in answers)


def test_without_an_identity_nothing_is_leased(valkey_url: str) -> None:
    """Input 61: no authorizer and no local stack is 401; the header alone names nobody."""
    event = an_event("POST /leases", x_proxypool_owner="bob")

    assert call(a_pool(valkey_url, a_record(1)), event, Settings())[0] == 401


def test_an_unreachable_or_silent_redis_is_503_within_three_seconds(valkey_url: str) -> None:
    """I21, input 77."""
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for port in (free_port(), silent.getsockname()[1]):
            pool = a_pool(valkey_url)
            pool = replace(pool, cache=replace(pool.cache, url=f"redis://127.0.0.1:{port}", _free=[]))
            started = time.monotonic()

            response = api.answer(an_event("POST /leases"), pool, SETTINGS)

            assert time.monotonic() - started < 3
            assert response["statusCode"] == 503
            assert "retry-after" in response["headers"]


def test_the_good_path_prints_nothing_and_a_failure_one_line(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """I19, input 62: never a stack trace, never what the caller sent."""
    pool = a_pool(valkey_url, a_record(1))
    monkeypatch.setattr(lease, "settings", lambda: SETTINGS)
    monkeypatch.setattr(lease, "pool", lambda: pool)
    assert lease.handler(an_event("POST /leases"), None)["statusCode"] == 201
    assert capfd.readouterr() == ("", "")

    monkeypatch.setattr(lease, "pool", lambda: None)
    response = lease.handler(an_event("POST /leases", {}), None)

    printed = capfd.readouterr().out
    assert response["statusCode"] == 503
    assert json.loads(printed)["error"] == "AttributeError"
    assert "Traceback" not in printed + response["body"]


def test_the_lease_function_imports_no_heavy_library() -> None:
    """Its cold start is paid by a caller who waits."""
    heavy = {"boto3", "botocore", "pydantic", "pynamodb", "httpx", "aws_lambda_powertools", "aws_xray_sdk"}
    code = "import sys; import functions.lease.app; print(*sys.modules)"

    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "proxypool.leases.api" in found.split()
    assert not heavy & set(found.split())


def test_index_pool_puts_committed_changes_into_the_index(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I11, input 74: an unreadable record is skipped, its neighbours are not."""
    pool = a_pool(valkey_url)
    monkeypatch.setattr(index_pool, "index", lambda: Index(pool.cache, 3600))
    gone = {"eventName": "REMOVE", "dynamodb": {"OldImage": {"proxy_id": {"S": a_record(2).id}, "version": {"N": "1"}}}}
    poison = {"eventName": "MODIFY", "dynamodb": {"NewImage": {"proxy_id": {"S": "x"}}, "SequenceNumber": "3"}}
    records = [stream_record(1, 1), stream_record(2, 2), poison, gone]

    assert index_pool.handler({"Records": records}, None) == {"batchItemFailures": []}

    assert [lease["exit_ip"] for lease in call(pool, an_event("POST /leases", {"count": 5}))[1]["leases"]] == [
        "127.1.0.1"
    ]


def test_index_pool_asks_for_the_batch_again_while_redis_is_away(valkey_url: str) -> None:
    """I21, input 73: the lowest sequence number, compared as a number."""
    pool = a_pool(valkey_url)
    away = replace(pool.cache, url=f"redis://127.0.0.1:{free_port()}", _free=[])

    assert project([stream_record(1, 10), stream_record(2, 9)], Index(away, 3600)) == "9"
    assert project([], Index(away, 3600)) == ""
    with pytest.raises(KeyError):
        index_pool.handler({}, None)
