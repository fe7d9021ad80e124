"""The functions lease and index_pool as Lambda calls them, on a real Valkey."""

from __future__ import annotations

import email.utils
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from proxypool.config.settings import Settings
from proxypool.leases.index.projection import project
from proxypool.leases.index.ready import Index
from proxypool.leases.pool import Pool
from proxypool.proxies.table import to_item

from functions.index_pool import app as index_pool
from functions.lease import app as lease
from tests.support.clock import Clock
from tests.support.lease_filters import EXAMPLES, fitting
from tests.support.leases import a_pool, a_record, an_event, respond
from tests.support.servers import ROOT, free_port

SETTINGS = Settings(allow_loopback=True)
ID = "0" * 32 + ".1"


def call(pool: Pool, event: dict[str, Any], settings: Settings = SETTINGS) -> tuple[int, Any]:
    """The status and the body of an answer."""
    response = respond(event, pool, settings)
    return response["statusCode"], json.loads(response.get("body", "null"))


def stream_record(number: int, sequence: int, **changes: Any) -> dict[str, Any]:
    """A committed change of a proxy, as a record of the table's stream."""
    image = {
        name: value for name, value in to_item(a_record(number, **changes)).serialize().items() if value is not None
    }
    return {"eventName": "MODIFY", "dynamodb": {"NewImage": image, "SequenceNumber": str(sequence)}}


def test_the_lifecycle_of_a_lease_over_http(valkey_url: str) -> None:
    """Grant, look, renew, report, release, and the 404 behind it."""
    pool = a_pool(valkey_url, a_record(1))

    status, granted = call(pool, an_event("POST /leases", {"protocol": "http", "ttl_seconds": 30}))
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
        pytest.param({"exclude": [f"{number:020x}" for number in range(1_001)]}, "exclude", id="1,001 excluded"),
        pytest.param({"tags": [f"t{number}" for number in range(11)]}, "tags", id="11 tags"),
        ({"min_score": 1.5}, "min_score"),
        ({"at_least": 2}, "at_least"),
        ({"session_id": "s", "count": 2}, "count"),
        ({"session_id": "s|t"}, "session_id"),
        ({"strategy": "worst"}, "strategy"),
        *(
            ({"target": value}, "target")
            for value in ("shop", "Shop.example", "a.b\n", "a..b", "a|b.c", "x" * 250 + ".de", "*")
        ),
        ({"tags": ["A"]}, "tags"),
        ({"source": "s}"}, "source"),
        ({"region": "b y"}, "region"),
        ({"max_latency_ms": 0}, "max_latency_ms"),
        ({"ipv4_only": 1}, "ipv4_only"),
        ({"owner": "bob"}, "owner"),
    ],
    ids=str,
)
def test_an_invalid_field_is_named(valkey_url: str, body: dict[str, Any], field: str) -> None:
    """Inputs 55, 56, 61, 63."""
    status, answer = call(a_pool(valkey_url, a_record(1)), an_event("POST /leases", body))

    assert status == 422
    assert [error["field"] for error in answer["errors"]] == [field]


@pytest.mark.parametrize("body", ['{"count": NaN}', "[" * 100, '{"count":1,"count":2}', "[]", "{", '"x"'])
def test_a_body_that_is_not_a_json_object_is_refused(valkey_url: str, body: str) -> None:
    """Inputs 55, 62."""
    assert call(a_pool(valkey_url, a_record(1)), an_event("POST /leases", body))[0] == 400


def test_unknown_foreign_and_malformed_ids_look_the_same(valkey_url: str) -> None:
    """I3, inputs 57 and 63."""
    pool = a_pool(valkey_url, a_record(1))
    foreign = call(pool, an_event("POST /leases", x_proxypool_owner="bob"))[1]["id"]

    answers = [call(pool, an_event("DELETE /leases/{id}", lease_id=name)) for name in (foreign, ID, "}\n", "..")]

    assert answers[0][0] == 404
    assert all(answer == answers[0] for answer in answers)


def test_many_leases_are_released_in_one_call(valkey_url: str) -> None:
    """I3, input 57: the leases of the owner are released, all other ids are reported as unknown."""
    pool = a_pool(valkey_url, *(a_record(number) for number in range(4)))
    mine = [lease["id"] for lease in call(pool, an_event("POST /leases", {"count": 3}))[1]["leases"]]
    foreign = call(pool, an_event("POST /leases", x_proxypool_owner="bob"))[1]["id"]

    answer = call(pool, an_event("POST /leases/release", {"leases": [*mine, foreign, ID], "outcome": "ok"}))

    assert answer == (200, {"released": 3, "unknown": [foreign, ID]})
    assert call(pool, an_event("GET /leases")) == (200, {"leases": []})
    assert call(pool, an_event("POST /leases/release", {}))[0] == 422
    assert call(pool, an_event("POST /leases/release", {"leases": ["x"]}))[1]["errors"][0]["field"] == "leases"
    assert call(pool, an_event("GET /leases", x_proxypool_owner="bob"))[1]["leases"][0]["id"] == foreign


@pytest.mark.parametrize(("given", "least", "most"), [("7", 7, 12), ("date", 7, 12), ("0", 0, 0)])
def test_retry_after_is_accepted_as_the_target_sent_it(
    valkey_url: str, clock: Clock, given: str, least: int, most: int
) -> None:
    """Case 26: seconds or a date; zero cools nothing."""
    now, pool = clock.stop(), a_pool(valkey_url, a_record(1))
    text = email.utils.format_datetime(now + timedelta(seconds=7), usegmt=True) if given == "date" else given
    granted = call(pool, an_event("POST /leases", {"target": "shop.example"}))[1]["id"]
    told = {"outcome": "rate_limited", "retry_after": text}
    assert call(pool, an_event("POST /leases/{id}/release", told, lease_id=granted))[0] == 204

    response = respond(an_event("POST /leases", {"target": "shop.example"}), pool, SETTINGS)

    if most:
        assert response["statusCode"] == 409
        assert json.loads(response["body"])["reasons"]["cooling"] == 1
        assert least <= int(response["headers"]["retry-after"]) <= most
    else:
        assert response["statusCode"] == 201


@pytest.mark.parametrize("text", ["soon", "-1", "7.5", "Mon, 99 Foo 2026 00:00:00 GMT"])
def test_an_invalid_retry_after_is_refused(valkey_url: str, text: str) -> None:
    """Input 55: neither seconds nor a date."""
    pool = a_pool(valkey_url, a_record(1))
    granted = call(pool, an_event("POST /leases"))[1]["id"]

    status, answer = call(
        pool, an_event("POST /leases/{id}/report", {"outcome": "ok", "retry_after": text}, lease_id=granted)
    )

    assert (status, answer["errors"][0]["field"]) == (422, "retry_after")


def test_an_empty_pool_responds_with_reasons_and_retry_after(valkey_url: str) -> None:
    """Cases 18 and 33, input 65: 409 with counts and whole seconds."""
    pool = a_pool(valkey_url, a_record(1), a_record(2, https=False))
    call(pool, an_event("POST /leases", {"https": True}, x_proxypool_owner="bob"))

    response = respond(an_event("POST /leases", {"https": True}), pool, SETTINGS)

    body = json.loads(response["body"])
    assert (response["statusCode"], body["type"]) == (409, "pool_empty")
    assert body["reasons"] == {"candidates": 1, "filtered": 1, "leased": 1}
    assert 1 <= int(response["headers"]["retry-after"]) <= 30


def test_only_the_worker_can_act_on_behalf_of_an_owner(valkey_url: str) -> None:
    """Input 61: only its role may name the owner; for other callers the header is forbidden, not ignored."""
    pool, settings = a_pool(valkey_url, a_record(1), a_record(2)), Settings(worker_role_id="AROAWORKER")
    by_role = {"iam": {"userId": "AROAWORKER:fetch_page"}}
    by_other = {"iam": {"userId": "AROAOTHER:x"}}
    granted = call(pool, an_event("POST /leases", by=by_role, x_on_behalf_of="ann"), settings)

    assert granted[0] == 201
    assert [lease.id for lease in pool.list_leases("ann")] == [granted[1]["id"]]
    assert pool.list_leases("AROAWORKER") == []
    for event, deployed in (
        (an_event("POST /leases", by=by_other, x_on_behalf_of="ann"), settings),
        (an_event("POST /leases", by=by_role, x_on_behalf_of="ann"), Settings()),
        (an_event("POST /leases", by=by_role, x_on_behalf_of="a|b"), settings),
        (an_event("POST /leases", x_on_behalf_of="ann"), Settings(allow_loopback=True)),
    ):
        assert call(pool, event, deployed)[0] == 403


def test_the_owner_is_the_role_or_the_subject_of_the_token(valkey_url: str) -> None:
    """Input 61: neither sees the other's leases."""
    pool = a_pool(valkey_url, a_record(1))
    iam = {"iam": {"userId": "AROATEAM:session-1"}}
    jwt = {"jwt": {"claims": {"sub": "team-2"}}}
    granted = call(pool, an_event("POST /leases", by=iam), Settings())[1]

    assert call(pool, an_event("GET /leases", by=iam), Settings())[1]["leases"] == [granted]
    assert call(pool, an_event("GET /leases", by=jwt), Settings())[1]["leases"] == []
    assert call(pool, an_event("DELETE /leases/{id}", lease_id=granted["id"], by=jwt), Settings())[0] == 404
    assert [lease.id for lease in pool.list_leases("AROATEAM")] == [granted["id"]]


def test_a_storm_of_renewals_writes_nothing(valkey_url: str, clock: Clock) -> None:
    """Input 60: within a second the end does not move, and the journal does not grow."""
    clock.stop()
    pool = a_pool(valkey_url, a_record(1))
    path = {"lease_id": call(pool, an_event("POST /leases", {"ttl_seconds": 5}))[1]["id"]}
    first = call(pool, an_event("POST /leases/{id}/renew", {"ttl_seconds": 60}, **path))
    length = pool.cache.command("XLEN", pool.cache.keys.journal)

    for _ in range(20):
        clock.move(seconds=0.04)
        assert call(pool, an_event("POST /leases/{id}/renew", {"ttl_seconds": 60}, **path))[0] == 200

    assert first[0] == 200
    assert pool.cache.command("XLEN", pool.cache.keys.journal) == length


def test_renewals_by_another_owner_are_404(valkey_url: str) -> None:
    """Input 60, I3: it neither moves the end nor writes."""
    pool = a_pool(valkey_url, a_record(1))
    held = call(pool, an_event("POST /leases", {"ttl_seconds": 60}))[1]
    length = pool.cache.command("XLEN", pool.cache.keys.journal)
    storm = an_event("POST /leases/{id}/renew", {"ttl_seconds": 60}, lease_id=held["id"], x_proxypool_owner="bob")

    assert {call(pool, storm)[0] for _ in range(20)} == {404}
    assert pool.cache.command("XLEN", pool.cache.keys.journal) == length
    assert call(pool, an_event("GET /leases"))[1]["leases"] == [held]


def test_a_thousand_requests_at_once_are_ten_leases_and_spread_out_refusals(valkey_url: str) -> None:
    """Input 64, I1, case 18: over HTTP, two owners; 409 with the reasons, and different values of Retry-After."""
    pool = a_pool(valkey_url, *(a_record(number) for number in range(10)))

    def ask(number: int) -> dict[str, Any]:
        return respond(an_event("POST /leases", {}, x_proxypool_owner=f"owner-{number % 2}"), pool, SETTINGS)

    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(ask, range(1_000)))
    pool.cache.close()

    bodies = [(answer["statusCode"], json.loads(answer["body"])) for answer in answers]
    granted = [body["proxy_id"] for status, body in bodies if status == 201]
    refused = [body for status, body in bodies if status != 201]
    waits = [int(answer["headers"]["retry-after"]) for answer in answers if answer["statusCode"] == 409]
    assert len(granted) == len(set(granted)) == 10
    assert {body["type"] for body in refused} == {"pool_empty"}
    assert (len(waits), len(refused)) == (990, 990)
    assert all(1 <= wait <= 30 for wait in waits)
    assert len(set(waits)) > 1


def test_every_filter_reaches_the_choice(valkey_url: str) -> None:
    """Each field of the request decides on its own over HTTP, too."""
    fits = a_record(1, **fitting())
    pool = a_pool(valkey_url, fits)
    wanted = {example.name: example.wanted for example in EXAMPLES} | {
        "target": "shop.example", "strategy": "best", "count": 1, "at_least": 1, "distinct_exit": True, "ttl_seconds": 5,
        "exclude": ["0" * 20],
    }  # fmt: skip
    other = {example.name: example.other for example in EXAMPLES if example.other is not None} | {"exclude": [fits.id]}
    status, granted = call(pool, an_event("POST /leases", wanted))
    assert status == 201
    call(pool, an_event("DELETE /leases/{id}", lease_id=granted["id"]))

    for name, value in other.items():
        assert call(pool, an_event("POST /leases", wanted | {name: value}))[0] == 409, name


def test_no_lease_without_an_identity(valkey_url: str) -> None:
    """Input 61: 401 without an authorizer outside of the local stack; the header is ignored."""
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

            response = respond(an_event("POST /leases"), pool, SETTINGS)

            assert time.monotonic() - started < 20
            assert response["statusCode"] == 503
            assert "retry-after" in response["headers"]


def test_a_success_logs_nothing_and_a_failure_one_line(
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
    heavy = {
        "boto3",
        "botocore",
        "pydantic",
        "pynamodb",
        "httpx",
        "aws_lambda_powertools",
        "aws_xray_sdk",
        "redis",
        "asyncio",
        "ssl",
    }
    code = "import sys; import functions.lease.app; print(*sys.modules)"

    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "proxypool.leases.operations" in found.split()
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


def test_index_pool_retries_the_batch_while_redis_is_unavailable(valkey_url: str) -> None:
    """I21, input 73: the lowest sequence number, compared as a number."""
    pool = a_pool(valkey_url)
    away = replace(pool.cache, url=f"redis://127.0.0.1:{free_port()}", _free=[])

    assert project([stream_record(1, 10), stream_record(2, 9)], Index(away, 3600)) == "9"
    assert project([], Index(away, 3600)) == ""
    with pytest.raises(KeyError):
        index_pool.handler({}, None)
