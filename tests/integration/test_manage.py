"""The admin API as Lambda calls it, on the emulated AWS: every route, what it refuses, and what it touches."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from botocore.client import BaseClient
from proxypool import aws, clock, queues, tasks
from proxypool.local import template
from proxypool.manage import openapi, routes
from proxypool.manage.service import Manager
from proxypool.proxies import census
from proxypool.proxies.proxy import Anonymity, Kind, Protocol, Proxy, Status
from proxypool.proxies.record import CheckFacts
from proxypool.proxies.table import ProxyTable
from proxypool.settings import Settings
from proxypool.sources.table import SourceTable
from proxypool.state import GAUGES, State

from functions.manage import app
from tests.support.openapi import assert_documented
from tests.support.servers import ROOT, create_tables

JSON = {"content-type": "application/json"}


@dataclass
class Admin:
    """The function with tables and queues of its own; each answer is held against the document."""

    settings: Settings
    proxies: ProxyTable
    state: State
    calls: set[tuple[str, str]] = field(default_factory=set)

    def __call__(
        self, route: str, body: object = None, *, name: str = "", query: dict[str, str] | None = None, **parts: Any
    ) -> tuple[int, Any]:
        """Status and JSON of a route, e.g. "GET /proxies/{id}"; `parts` are members of the event."""
        answer = self.raw(route, body, name=name, query=query, **parts)
        value = json.loads(answer.get("body") or "null")
        assert_documented(route, answer["statusCode"], value)
        return answer["statusCode"], value

    def raw(
        self, route: str, body: object = None, *, name: str = "", query: dict[str, str] | None = None, **parts: Any
    ) -> dict[str, Any]:
        """The response itself."""
        method, _, path = route.partition(" ")
        text = body if isinstance(body, str) else None if body is None else json.dumps(body)
        event = {
            "version": "2.0", "routeKey": route, "rawPath": path.replace("{id}", name), "headers": JSON,
            "queryStringParameters": query or {}, "body": text, "isBase64Encoded": False,
            "requestContext": {"stage": "$default", "http": {"method": method, "path": path}},
        }  # fmt: skip
        context = parts.pop("requestContext", {})
        event |= parts
        event["requestContext"] |= context
        return app.handler(event, None)

    def add(self, *proxies: Proxy) -> list[str]:
        """Proxies of the table, unchecked."""
        done = self.proxies.upsert_many(proxies, source_id="list", kind=Kind.UNKNOWN, tags=frozenset(), now=clock.now())
        return [record.id for record in done.new]

    def check(self, proxy_id: str, **facts: Any) -> None:
        """Makes a proxy active, as a passed check does."""
        record = self.proxies.get(proxy_id)
        assert record
        assert record.next_check_at
        due = clock.epoch(record.next_check_at)
        claim = self.proxies.claim_many({proxy_id: due}, now=clock.now(), claim_seconds=60)[proxy_id]
        check = CheckFacts(passed=1.0, count=1, **facts)
        now = clock.now()
        self.proxies.record_many(
            [replace(record, status=Status.ACTIVE, check=check, last_checked_at=now, next_check_at=now, claim=claim)]
        )

    def messages(self, url: str) -> list[dict[str, Any]]:
        """All messages of a queue, taken out."""
        found: list[dict[str, Any]] = []
        while page := aws.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            found += [json.loads(message["Body"]) for message in page]
        return found


@pytest.fixture(scope="module")
def stage(aws_endpoint: str) -> tuple[str, Settings]:
    """The prefix of this file's tables and queues, and the settings that name them."""
    aws.client.cache_clear()
    prefix = f"m{uuid4().hex[:8]}-"
    tables, sqs = create_tables(prefix), aws.client("sqs")
    return prefix, Settings(
        sources_table=tables["SourcesTable"], proxies_table=tables["ProxiesTable"], state_table=tables["StateTable"],
        scrape_queue_url=sqs.create_queue(QueueName=prefix + "scrape")["QueueUrl"],
        validate_queue_url=sqs.create_queue(QueueName=prefix + "validate")["QueueUrl"],
        allow_loopback=True,
    )  # fmt: skip


@pytest.fixture
def admin(stage: tuple[str, Settings], monkeypatch: pytest.MonkeyPatch) -> Admin:
    """The admin API over empty tables, on a laptop's settings."""
    prefix, settings = stage
    manager = Manager(
        settings=settings, sources=SourceTable(settings.sources_table), proxies=ProxyTable(settings.proxies_table),
        state=State(settings.state_table),
    )  # fmt: skip
    _empty(settings)
    monkeypatch.setattr(routes, "manager", lambda: manager)
    monkeypatch.setattr(routes, "settings", lambda: manager.settings)
    found = Admin(settings, manager.proxies, manager.state)
    original = BaseClient._make_api_call

    def recorded(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
        found.calls |= {*_actions(client.meta.service_model.service_name, operation, arguments, prefix)}
        return original(client, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", recorded)
    return found


def _empty(settings: Settings) -> None:
    dynamodb, sqs = aws.client("dynamodb"), aws.client("sqs")
    keys = {settings.sources_table: "source_id", settings.proxies_table: "proxy_id", settings.state_table: "name"}
    for table, key in keys.items():
        for item in dynamodb.scan(TableName=table)["Items"]:
            dynamodb.delete_item(TableName=table, Key={key: item[key]})
    for url in (settings.scrape_queue_url, settings.validate_queue_url):
        sqs.purge_queue(QueueUrl=url)


def _actions(service: str, operation: str, arguments: dict[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """What IAM calls it: (resource's logical name, action)."""
    if operation == "BatchExecuteStatement":
        for statement in arguments["Statements"]:
            verb, table = re.match(rf'(\w+)(?: INTO)? "{prefix}(\w+)"', statement["Statement"]).groups()  # type: ignore[union-attr]
            yield table, f"dynamodb:PartiQL{verb.capitalize()}"
        return
    tables = [arguments["TableName"]] if "TableName" in arguments else list(arguments.get("RequestItems", ()))
    url = arguments.get("QueueUrl", "")
    names = [table.removeprefix(prefix) for table in tables] or [url.rpartition("-")[2].capitalize() + "Queue"]
    verbs = {"SendMessageBatch": "SendMessage", "Invoke": "InvokeFunction"}
    for name in names:
        resource = "ExpireLeasesFunction" if service == "lambda" else name
        yield resource, f"{service}:{verbs.get(operation, operation)}"


def _allowed() -> set[tuple[str, str]]:
    """What the template lets the function do."""
    policies = template.load(ROOT / "template.yaml")["Resources"]["ManageFunction"]["Properties"]["Policies"]
    found: set[tuple[str, str]] = set()
    for statement in policies[0]["Statement"]:
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        names = {"".join(re.findall(r"\w+(?:Table|Queue|Function|Bucket)", json.dumps(one))) for one in resources}
        found |= {(name, action) for name in names for action in actions}
    return found


def test_every_route_answers_as_documented_and_touches_what_the_template_allows(admin: Admin) -> None:
    """Least privilege: the function may do exactly what its routes do."""
    routes_seen: set[str] = set()

    def ask(route: str, body: object = None, **parts: Any) -> Any:
        routes_seen.add(route)
        status, value = admin(route, body, **parts)
        assert status < 300, value
        return value

    admin.calls.clear()
    source = ask("POST /sources", {"id": "list", "inline": "198.51.100.1:80", "tags": ["eu"]})
    assert ask("GET /sources")["sources"] == [source] == [ask("GET /sources/{id}", name="list")]
    assert ask("PATCH /sources/{id}", {"name": "mine"}, name="list")["name"] == "mine"
    assert ask("POST /sources/{id}/scrape", name="list") == {"source_id": "list", "queued": True}
    added = ask("POST /proxies", {"lines": "8.8.8.8:80\n8.8.4.4:80\nnonsense\n10.0.0.1:80", "tags": ["hand"]})
    assert added == {"new": 2, "updated": 0, "unchanged": 0, "rejected": {"malformed": 1, "private": 1}}
    assert ask("POST /proxies", {"lines": "8.8.8.8:80", "tags": ["more"]})["updated"] == 1
    first = ask("GET /proxies", query={"tag": "more"})["proxies"][0]["id"]
    assert "last check is too old" in " ".join(ask("GET /proxies/{id}", name=first)["explain"]["reasons"])
    assert ask("PATCH /proxies/{id}", {"tags": ["b", "a"], "kind": "mobile"}, name=first)["tags"] == ["a", "b"]
    ask("DELETE /proxies/{id}", name=first)
    assert ask("GET /proxies", query={"status": "retired"})["proxies"][0]["id"] == first
    assert ask("POST /proxies/{id}/restore", name=first)["status"] == "unchecked"
    assert ask("PATCH /settings", {"owner_quota": 5}) == {"paused": None, "owner_quota": 5}
    assert ask("GET /settings")["owner_quota"] == 5
    with tasks.run("scrape_all", run_id="run-1", state=admin.state, result_ttl_seconds=60) as run:
        run.counts["count_enqueued"] = 1
    admin.calls.discard(("StateTable", "dynamodb:PutItem"))  # the run's; settings are written again below
    assert ask("GET /tasks/{id}", name="run-1") == ask("GET /stats/pool")["tasks"]["scrape_all"]
    ask("PATCH /settings", {"owner_quota": None})
    assert ask("GET /openapi.json") == openapi.checked_in()
    ask("DELETE /sources/{id}", name="list")

    assert routes_seen == set(routes.ROUTES)
    used = admin.calls | {("ExpireLeasesFunction", "lambda:InvokeFunction")}  # seen in a test of its own
    assert used == _allowed()


def test_the_messages_that_routes_send_are_those_of_the_tasks(admin: Admin) -> None:
    admin("POST /sources", {"id": "list", "inline": "x"})
    admin("POST /sources/{id}/scrape", name="list")
    admin("POST /proxies", {"lines": "8.8.8.8:80"})

    proxy = Proxy(Protocol.HTTP, "8.8.8.8", 80)
    assert [message["source_id"] for message in admin.messages(admin.settings.scrape_queue_url)] == ["list"]
    assert [message["proxy_id"] for message in admin.messages(admin.settings.validate_queue_url)] == [proxy.id]


def test_a_removed_proxy_comes_back_unchecked_and_due_at_once(admin: Admin) -> None:
    (proxy_id,) = admin.add(Proxy(Protocol.HTTP, "8.8.8.8", 80))
    admin("DELETE /proxies/{id}", name=proxy_id)

    status, restored = admin("POST /proxies/{id}/restore", name=proxy_id)

    record = admin.proxies.get(proxy_id)
    assert record
    assert record.next_check_at
    assert (status, restored["status"], record.status) == (200, "unchecked", Status.UNCHECKED)
    assert record.next_check_at <= clock.now()
    (message,) = admin.messages(admin.settings.validate_queue_url)
    assert queues.decode(json.dumps(message), queues.ValidateMessage).next_check_at == clock.epoch(record.next_check_at)


def test_restoring_what_was_not_removed_changes_nothing(admin: Admin) -> None:
    (proxy_id,) = admin.add(Proxy(Protocol.HTTP, "8.8.8.8", 80))
    before = admin.proxies.get(proxy_id)

    assert admin("POST /proxies/{id}/restore", name=proxy_id)[0] == 200
    assert admin.proxies.get(proxy_id) == before
    assert admin("POST /proxies/{id}/restore", name="0" * 20)[0] == 404


def test_proxies_are_listed_page_by_page_each_once(admin: Admin) -> None:
    ids = admin.add(*(Proxy(Protocol.HTTP, f"8.8.8.{number}", 80) for number in range(1, 24)))

    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        query = {"limit": "5"} | ({"next": cursor} if cursor else {})
        _, page = admin("GET /proxies", query=query)
        assert len(page["proxies"]) <= 5
        seen += [proxy["id"] for proxy in page["proxies"]]
        cursor = page["next"]

    assert sorted(seen) == sorted(ids)


def test_filters_are_facts_of_the_proxies(admin: Admin) -> None:
    first, second = admin.add(Proxy(Protocol.HTTP, "8.8.8.8", 80), Proxy(Protocol.SOCKS5, "8.8.4.4", 80))
    admin.check(first, anonymity=Anonymity.ELITE, country="de", exit_ip="8.8.8.8")

    def found(**query: str) -> list[str]:
        return [proxy["id"] for proxy in admin("GET /proxies", query=query)[1]["proxies"]]

    assert found(anonymity="elite") == found(country="de") == found(status="active") == [first]
    assert found(protocol="socks5") == found(status="unchecked") == [second]
    assert found(anonymity="anonymous") == found(source="other") == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("limit", "0"), ("limit", "1001"), ("limit", "1e3"), ("limit", "٣"), ("limit", "true"), ("limit", "007"),
     ("next", "x}"), ("status", "gone"), ("country", "DE"), ("colour", "red")],
)  # fmt: skip
def test_a_wrong_query_parameter_is_named(admin: Admin, name: str, value: str) -> None:
    """Inputs 55, 56, 63."""
    status, problem = admin("GET /proxies", query={name: value})

    assert status == 422
    assert [error["field"] for error in problem["errors"]] == [name]


@pytest.mark.parametrize(
    ("route", "body", "field"),
    [
        ("POST /sources", {"inline": "x", "owner": "bob"}, "owner"),
        ("POST /sources", {"inline": "x", "enabled": "true"}, "enabled"),
        ("POST /sources", {"inline": "x", "tags": ["a"] * 2}, "tags"),
        ("POST /sources", {"url": "http://169.254.169.254/x"}, "url"),
        ("POST /proxies", {"lines": "nonsense"}, "lines"),
        ("POST /proxies", {"lines": "127.0.0.1:80\n169.254.169.254:80", "kind": 5}, "kind"),
        ("POST /proxies", {"lines": "169.254.169.254:80"}, "lines"),
        ("POST /proxies", {}, "lines"),
        ("PATCH /settings", {"paused": 1}, "paused"),
        ("PATCH /settings", {"owner_quota": 10**6}, "owner_quota"),
        ("PATCH /settings", {"owner_quota": True}, "owner_quota"),
        ("PATCH /proxies/{id}", {"tags": ["A{x}"]}, "tags"),
        ("PATCH /proxies/{id}", {"status": "active"}, "status"),
        ("POST /proxies/{id}/restore", {"force": True}, "force"),
        ("POST /sources/{id}/scrape", {"owner": "bob"}, "owner"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named(admin: Admin, route: str, body: dict[str, Any], field: str) -> None:
    """Inputs 1, 55, 56, 61, 63."""
    (proxy_id,) = admin.add(Proxy(Protocol.HTTP, "8.8.8.8", 80))
    admin("POST /sources", {"id": "list", "inline": "x"})

    status, problem = admin(route, body, name="list" if "sources" in route else proxy_id)

    assert status == 422
    assert [error["field"] for error in problem["errors"]] == [field]


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ({"body": "[" * 100}, 400),
        ({"body": '{"lines":' + "[" * 20 + "]" * 20 + "}"}, 400),
        ({"body": '{"lines":"a","lines":"b"}'}, 400),
        ({"body": "[]"}, 400),
        ({"body": ""}, 400),
        ({"body": "{}", "headers": {"content-type": "text/plain"}}, 400),
        ({"body": "{}", "headers": JSON | {"content-encoding": "gzip"}}, 400),
        ({"body": base64.b64encode(b'{"lines":"\xff"}').decode(), "isBase64Encoded": True}, 400),
        ({"body": '{"lines":"\ud800"}'}, 400),
        ({"body": '{"lines":"' + "x" * 70_000 + '"}'}, 413),
    ],
    ids=["brackets", "deep", "twice", "list", "empty", "type", "encoded", "utf-8", "surrogate", "large"],
)
@pytest.mark.parametrize(
    "route", ["POST /sources", "POST /proxies", "PATCH /settings", "PATCH /proxies/{id}", "PATCH /sources/{id}"]
)
def test_what_is_not_one_plain_json_object_is_refused(
    admin: Admin, route: str, parts: dict[str, Any], status: int
) -> None:
    """Input 62: no stack trace, nothing of a library's own words."""
    admin("POST /sources", {"id": "list", "inline": "x"})

    answer = admin.raw(route, name="list" if "sources" in route else "0" * 20, **parts)

    assert answer["statusCode"] == status
    assert answer["headers"]["content-type"] == "application/problem+json"
    assert not re.search("Traceback|Error|line [0-9]", answer["body"])


def test_a_path_that_takes_other_methods_says_which_and_another_one_is_unknown(admin: Admin) -> None:
    """Also for the paths of leases: what no route takes comes here."""
    wrong = admin.raw("PUT /sources/{id}", name="list", routeKey="$default")
    leases = admin.raw("PUT /leases", routeKey="$default")

    assert (wrong["statusCode"], wrong["headers"]["allow"]) == (405, "DELETE, GET, PATCH")
    assert json.loads(wrong["body"])["type"] == "method_not_allowed"
    assert (leases["statusCode"], leases["headers"]["allow"]) == (405, "GET, POST")
    for path in ("/", "/source", "/sources/", "/sources/a/b", "/stats", "/openapi"):
        assert admin.raw(f"GET {path}", routeKey="$default")["statusCode"] == 404


@pytest.mark.parametrize("name", ["x" * 3000, "a}b", "..", "A", "%00"])
@pytest.mark.parametrize("route", ["GET /sources/{id}", "DELETE /proxies/{id}", "GET /tasks/{id}"])
def test_an_id_that_cannot_be_is_unknown_and_reaches_no_table(admin: Admin, route: str, name: str) -> None:
    """Inputs 57 and 63."""
    admin.calls.clear()

    assert admin.raw(route, name=name)["statusCode"] == 404
    assert admin.calls <= {("StateTable", "dynamodb:GetItem")}


def test_without_an_identity_nothing_is_answered(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 61: on AWS a header names nobody."""
    monkeypatch.setattr(routes, "settings", lambda: replace(admin.settings, allow_loopback=False))

    for route in routes.ROUTES:
        answer = admin.raw(route, {}, name="0" * 20, headers=JSON | {"x-proxypool-owner": "bob"})
        assert answer["statusCode"] == 401
        assert json.loads(answer["body"])["type"] == "unidentified"


def test_a_token_without_the_admin_scope_may_only_look(admin: Admin) -> None:
    """Input 61: admin routes need the scope; under IAM the caller's policy has decided."""

    def status(route: str, **jwt: Any) -> int:
        authorizer = {"jwt": {"claims": {"sub": "team", **jwt}}}
        return int(admin.raw(route, {}, name="0" * 20, requestContext={"authorizer": authorizer})["statusCode"])

    looks = {"GET /proxies", "GET /proxies/{id}", "GET /stats/pool", "GET /openapi.json"}
    for route in routes.ROUTES:
        assert (status(route, scope="read") == 403) == (route not in looks), route
        assert status(route, scope="read admin") != 403
    iam = {"authorizer": {"iam": {"userId": "AROAEXAMPLE:session"}}}
    assert admin.raw("GET /settings", requestContext=iam)["statusCode"] == 200


def test_settings_reach_the_cache_at_once(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 91: the bridge is woken; a change that is refused wakes nobody."""
    woken: list[dict[str, Any]] = []

    class Functions:
        def invoke(self, **arguments: Any) -> None:
            woken.append(arguments)

    manager = routes.manager()
    named = replace(manager, settings=replace(manager.settings, expire_leases_function="bridge"))
    monkeypatch.setattr(routes, "manager", lambda: named)
    monkeypatch.setattr(aws, "client", lambda service: Functions())

    assert admin("PATCH /settings", {"paused": True}) == (200, {"paused": True, "owner_quota": None})
    assert admin("PATCH /settings", {"paused": "no"})[0] == 422

    assert [(call["FunctionName"], call["InvocationType"]) for call in woken] == [("bridge", "Event")]


def test_stats_put_together_what_was_written_down_and_count_nothing(admin: Admin) -> None:
    """Two reads, however large the tables are."""
    first, second, third = admin.add(*(Proxy(Protocol.HTTP, f"8.8.8.{number}", 80) for number in (1, 2, 3)))
    admin.check(first)
    admin("DELETE /proxies/{id}", name=third)
    census.refresh(admin.proxies, admin.state, now=clock.now() + timedelta(seconds=1))
    admin.state.put(GAUGES, {"at": clock.iso(clock.now()), "ready": 7, "leases_open": 2})
    admin.calls.clear()

    _, stats = admin("GET /stats/pool")

    assert stats["proxies"] == {"unchecked": 1, "active": 1, "dead": 0}
    assert (stats["overdue"], stats["ready"], stats["leases_open"]) == (1, 7, 2)
    assert admin.calls == {("StateTable", "dynamodb:BatchGetItem"), ("SourcesTable", "dynamodb:Scan")}
    assert second


def test_stats_of_a_pool_that_has_done_nothing_yet_are_null_not_zero(admin: Admin) -> None:
    _, stats = admin("GET /stats/pool")

    assert (stats["proxies"], stats["ready"], stats["last_scrape_at"]) == (None, None, None)
    assert set(stats["tasks"].values()) == {None}


def test_the_last_scrape_is_the_last_that_brought_a_list_and_every_run_is_told(admin: Admin) -> None:
    def scrape(run_id: str, **counts: Any) -> dict[str, Any]:
        with tasks.run("scrape_source", run_id=run_id, state=admin.state, result_ttl_seconds=60) as run:
            run.counts |= counts
        found: dict[str, Any] = admin("GET /stats/pool")[1]
        return found

    good = scrape("a", count_new=3)
    failed = scrape("b", error="HTTP 503")
    paused = scrape("c", skipped="paused")
    unchanged = scrape("d", skipped="not_modified")

    assert good["last_scrape_at"] == good["tasks"]["scrape_source"]["started_at"]
    assert failed["last_scrape_at"] == paused["last_scrape_at"] == good["last_scrape_at"]
    assert failed["tasks"]["scrape_source"]["error"] == "HTTP 503"
    assert unchanged["last_scrape_at"] == unchanged["tasks"]["scrape_source"]["started_at"]


def test_a_run_that_raised_is_told_with_its_error(admin: Admin) -> None:
    with pytest.raises(ValueError), tasks.run("validate_proxy", run_id="x", state=admin.state, result_ttl_seconds=60):
        raise ValueError("it broke")

    _, stats = admin("GET /stats/pool")

    run = stats["tasks"]["validate_proxy"]
    assert (run["status"], run["error"]) == ("failed", "ValueError: it broke")
    assert stats["last_validation_at"] is None


def test_a_table_that_fails_is_a_503_without_its_words(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 62: nothing of the inside leaves."""
    manager = routes.manager()
    monkeypatch.setattr(routes, "manager", lambda: replace(manager, sources=SourceTable("no-such-table")))

    answer = admin.raw("GET /sources")

    assert (answer["statusCode"], answer["headers"]["retry-after"]) == (503, "5")
    assert "no-such-table" not in answer["body"]
