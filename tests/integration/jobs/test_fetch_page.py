"""The ETL worker: leases on Valkey, rows on the emulated AWS, proxies and a site on loopback."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from proxypool.aws.dynamodb import StatementRefused, Throttled, execute_each
from proxypool.errors import Invalid
from proxypool.jobs import run
from proxypool.jobs.job import Job, JobState
from proxypool.jobs.store import table as jobs_table
from proxypool.jobs.store.result import Results
from proxypool.jobs.store.table import JobTable
from proxypool.leases.index.ready import Index
from proxypool.leases.ledger import journal
from proxypool.leases.pool import Request
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.proxies.record import LeaseFacts

from tests.support.jobs import JobEnvironment, job_environment, page
from tests.support.leases import a_record
from tests.support.site import Reply, Seen

HTML = {"content-type": "text/html"}


def test_a_page_is_fetched_through_a_leased_proxy_and_stored_once(valkey_url: str, aws_endpoint: str) -> None:
    """I12: fetched, stored, released; a second delivery has no effect (input 71)."""
    with job_environment(valkey_url) as world:
        job_id = world.submit("/a", transform={"name": "html", "fields": {"title": "h1"}})

        first, second = world.work(job_id), world.work(job_id)

        job, result = world.job(job_id), world.result(job_id)
        assert (first.counts["done"], second.counts["repeated"]) == (1, 1)
        assert (job.state, job.processed, job.runs, job.attempts) == (JobState.DONE, True, 1, 1)
        assert (result["data"], result["status"], result["exit_ip"]) == ({"title": "hello"}, 200, world.exits("/a")[0])
        assert len(world.exits("/a")) == 1
        assert world.exits("/a")[0].startswith("127.65.0.")  # never directly
        assert world.pool.list_leases("ann") == []


@pytest.mark.parametrize("any_domain", [False, True])
def test_an_international_host_is_fetched(valkey_url: str, aws_endpoint: str, any_domain: bool) -> None:
    """B1: the host is parsed once; the domain rules, the lease and the proxy get its ASCII form."""
    ascii_host = "xn--bcher-kva.example"
    with job_environment(valkey_url, exits=1, jobs_any_domain=any_domain) as world:
        world.proxies[0].hosts[ascii_host] = "127.0.0.1"
        if not any_domain:
            world.jobs.allow_domain(ascii_host, {"allow_http": True})
        url = f"HTTP://Bücher.example:{world.site.port}/a"

        job_id = str(world.jobs.submit("ann", {"url": url})["id"])
        world.work(job_id)

        job = world.job(job_id)
        assert (job.state, job.reason) == (JobState.DONE, "")
        assert job.request.url == world.result(job_id)["url"] == f"http://{ascii_host}:{world.site.port}/a"
        assert world.site.seen[-1].headers["host"] == f"{ascii_host}:{world.site.port}"


def test_a_rate_limited_page_is_retried_on_other_exits_and_ends_blocked(valkey_url: str, aws_endpoint: str) -> None:
    """Case 28: two attempts on two exits; the ban page is not a result."""
    with job_environment(valkey_url, lambda _: (429, {"retry-after": "7"}, b"slow down")) as world:
        job_id = world.submit("/", max_attempts=2)

        world.work(job_id)

        job = world.job(job_id)
        assert (job.state, job.reason, job.attempts, job.processed) == (JobState.BLOCKED, "http_429", 2, False)
        assert len(set(world.exits())) == len(world.exits()) == 2
        assert "ann/" + job_id not in [message["job_key"] for message in world.messages()[1:]]


def test_a_denied_page_is_not_retried_on_other_exits(valkey_url: str, aws_endpoint: str) -> None:
    """The operator can allow retries after 403 per domain."""
    with job_environment(valkey_url, lambda _: (403, {}, b"no")) as world:
        job_id = world.submit("/")
        world.work(job_id)
        assert (world.job(job_id).state, len(world.exits())) == (JobState.BLOCKED, 1)

        rules = {
            "requests_per_second": 1_000,
            "concurrency": 0,
            "robots": False,
            "reason": "our own site",
            "allow_http": True,
            "rotate_denied": True,
        }
        world.jobs.domains.put("127.0.0.1", rules)
        second = world.submit("/x")
        world.work(second)
        assert len(set(world.exits("/x"))) == 2  # the first one is in backoff for this site


def test_a_session_that_is_banned_at_a_gateway_continues_on_another_exit(valkey_url: str, aws_endpoint: str) -> None:
    """Cases 22 and 23, I15: the gateway has an exit per session name; sessions of two owners never share one."""
    names: list[str] = []

    def answer(seen: Seen) -> Reply:
        names.append(seen.headers["proxy-authorization"])
        return (
            (200, HTML, b"<h1>hello</h1>") if names[0] != names[-1] else (200, HTML, b"<title>Just a moment...</title>")
        )

    with job_environment(valkey_url, answer, exits=1) as world:
        (farm_proxy,), index = world.proxies, Index(world.pool.cache, 3_600)
        gateway = Proxy(Protocol.HTTP, farm_proxy.ip, farm_proxy.port, "u-{session}", "p")
        index.remove([(Proxy(Protocol.HTTP, farm_proxy.ip, farm_proxy.port).id, 1)])
        index.upsert([replace(a_record(1, slots=4), proxy=gateway)])
        jobs = {
            owner: [world.submit(f"/{owner}{number}", owner, session_id="s") for number in range(2)]
            for owner in ("ann", "bob")
        }

        for owner, ids in jobs.items():
            for job_id in ids:
                world.work(job_id, owner=owner)

        assert {world.job(job_id, owner).state for owner, ids in jobs.items() for job_id in ids} == {JobState.DONE}
        assert [world.job(job_id, owner).attempts for owner, ids in jobs.items() for job_id in ids] == [2, 1, 1, 1]
        ann, bob = names[1:3], names[3:]
        assert len({*ann}) == len({*bob}) == 1
        assert len({*names}) == 3


def test_a_404_page_is_a_result(valkey_url: str, aws_endpoint: str) -> None:
    """404 is not a ban."""
    with job_environment(valkey_url, lambda _: (404, HTML, b"gone")) as world:
        job_id = world.submit("/")
        world.work(job_id)

        assert world.job(job_id).state is JobState.DONE
        assert world.result(job_id)["status"] == 404


def test_a_dead_proxy_uses_up_an_attempt_and_another_exit_is_tried(valkey_url: str, aws_endpoint: str) -> None:
    """Input 51: never directly."""
    with job_environment(valkey_url, exits=2) as world:
        world.proxies[0].dead = True
        jobs = [world.submit(f"/{number}", max_attempts=2) for number in range(2)]

        world.work(*jobs)

        assert {world.job(job_id).state for job_id in jobs} == {JobState.DONE}
        assert {seen.exit_ip for seen in world.site.seen} == {world.proxies[1].ip}


def test_if_all_proxies_are_dead_the_page_is_not_fetched_directly(valkey_url: str, aws_endpoint: str) -> None:
    """Input 51."""
    with job_environment(valkey_url, exits=2) as world:
        for proxy in world.proxies:
            proxy.dead = True
        job_id = world.submit("/")

        world.work(job_id)

        assert world.site.seen == []
        assert world.job(job_id).state is JobState.FAILED


def test_without_a_proxy_the_job_waits(valkey_url: str, aws_endpoint: str) -> None:
    """Input 65: the function does not wait; the job is queued again with a delayed message."""
    with job_environment(valkey_url, exits=1) as world:
        lease = world.pool.acquire("bob", _request())[0][0]
        job_id = world.submit("/")
        world.messages()

        outcomes = world.work(job_id)

        assert outcomes.counts["requeued"] == 1
        assert world.job(job_id).state is JobState.QUEUED
        world.pool.release("bob", lease.id, None)
        world.work(job_id)
        assert world.job(job_id).state is JobState.DONE


def _request() -> Any:
    return Request(ttl_seconds=60)


def test_a_job_whose_owner_has_reached_the_quota_waits(
    valkey_url: str, aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs 66 and 92: requeued, not failed."""
    monkeypatch.setattr(run, "WAIT_SECONDS", 0.0)
    with job_environment(valkey_url, owner_quota=1) as world:
        held = world.pool.acquire("ann", _request())[0][0]
        job_id = world.submit("/")

        outcomes = world.work(job_id)

        assert (outcomes.counts["requeued"], outcomes.retries) == (1, {})
        world.pool.release("ann", held.id, None)
        world.work(job_id)
        assert world.job(job_id).state is JobState.DONE


def test_a_target_that_is_down_is_not_blamed_on_proxies(
    valkey_url: str, aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 29, I20: five failures through five exits open the breaker of the target; jobs wait, other targets are not affected."""
    monkeypatch.setattr(run, "WAIT_SECONDS", 0.0)
    with job_environment(valkey_url, lambda _: (502, HTML, b"down"), exits=6) as world:
        first, second, third = (world.submit(f"/{number}", max_attempts=3) for number in range(3))
        for job_id in (first, second, third):
            world.work(job_id)

        assert len(world.site.seen) == 5
        assert [world.job(job_id).attempts for job_id in (first, second)] == [3, 2]
        assert world.job(first).reason == "http_502"
        assert (world.job(third).state, world.job(third).attempts) == (JobState.QUEUED, 0)
        other = Request(ttl_seconds=60, count=6, at_least=6, target="news.example")
        assert len(world.pool.acquire("bob", other)[0]) == 6
        assert faults(world) == set()


def test_an_unreachable_site_is_not_blamed_on_proxies(valkey_url: str, aws_endpoint: str) -> None:
    """Case 29: each proxy reports that it cannot reach the target."""
    with job_environment(valkey_url, exits=3) as world:
        job_id = str(world.jobs.submit("ann", {"url": "http://127.0.0.1:9/"})["id"])

        world.work(job_id)

        assert (world.job(job_id).state, world.job(job_id).reason) == (JobState.FAILED, "http_502")
        assert faults(world) == set()


def faults(world: JobEnvironment) -> set[str]:
    """The proxies that the journal blames."""
    cache = world.pool.cache
    entries, _ = journal.parse_entries(cache.command("XRANGE", cache.keys.journal, "-", "+"))
    ids = {entry.proxy_id for entry in entries}
    facts = {
        name: journal.add_evidence(LeaseFacts(), [entry for entry in entries if entry.proxy_id == name]) for name in ids
    }
    return {name for name, fact in facts.items() if fact.bad}


def test_refused_credentials_are_retried_once(valkey_url: str, aws_endpoint: str) -> None:
    """Input 85: after a 407 another lease has the current credentials; a second 407 ends the run despite remaining attempts."""
    with job_environment(valkey_url, exits=4) as world:
        for proxy in world.proxies:
            proxy.password = "new"
        failed = world.submit("/a", max_attempts=4)
        world.work(failed)

        assert (world.job(failed).reason, world.job(failed).attempts) == ("http_407", 2)
        assert world.site.seen == []
        assert len(faults(world)) == 2

    with job_environment(valkey_url, exits=2) as world:
        world.proxies[0].password = "new"
        jobs = [world.submit(f"/{number}", max_attempts=4) for number in range(2)]
        world.work(*jobs)
        assert {world.job(job_id).state for job_id in jobs} == {JobState.DONE}


def shop(seen: Seen) -> Reply:
    """A site with a login, and a redirect to another."""
    if seen.path == "/login":
        return 302, {"location": "/home", "set-cookie": "sid=42; Path=/\nseen=1; Path=/"}, b""
    if seen.path == "/home":
        return (200, HTML, b"welcome") if "sid=42" in seen.headers.get("cookie", "") else (401, HTML, b"who?")
    if seen.path.startswith("/away"):
        return 302, {"location": f"http://127.0.0.2:{seen.headers['host'].rpartition(':')[2]}/elsewhere"}, b""
    return page(seen)


def test_a_login_is_stored_in_the_session(valkey_url: str, aws_endpoint: str) -> None:
    """I15, I16: cookies are saved in the session of the owner and sent again; another owner does not get them."""
    with job_environment(valkey_url, shop) as world:
        secrets: dict[str, Any] = {"session_id": "s1", "allow_plaintext_secrets": True}
        login = world.submit("/login", **secrets)
        world.work(login)
        assert world.result(login)["data"] == {"text": "welcome"}

        again = world.submit("/home", **secrets)
        other = world.submit("/home", owner="bob", **secrets)
        world.work(again)
        world.work(other, owner="bob")

        assert world.job(again).state is JobState.DONE
        assert world.job(other, "bob").reason == "http_401"
        assert world.exits("/home")[0] == world.exits("/home")[1]  # one exit per session


def test_possible_secrets_are_not_sent_after_a_redirect_to_another_origin(valkey_url: str, aws_endpoint: str) -> None:
    """Input 48: httpx would still send X-Api-Key."""
    with job_environment(valkey_url, shop) as world:
        headers = {"X-Api-Key": "k1", "Authorization": "Bearer t", "Accept-Language": "de"}
        job_id = world.submit("/away", headers=headers, allow_plaintext_secrets=True)

        world.work(job_id)

        first, second = world.site.seen
        assert (first.headers["x-api-key"], first.headers["authorization"]) == ("k1", "Bearer t")
        assert not {"x-api-key", "authorization", "cookie"} & second.headers.keys()
        assert second.headers["accept-language"] == "de"


def test_cookies_over_plain_http_need_a_flag(valkey_url: str, aws_endpoint: str) -> None:
    """Input 49: refused before a request is sent."""
    with job_environment(valkey_url, shop) as world:
        world.work(world.submit("/login", session_id="s1", allow_plaintext_secrets=True))
        world.site.seen.clear()
        job_id = world.submit("/home", session_id="s1")

        world.work(job_id)

        assert world.site.seen == []
        assert (world.job(job_id).state, world.job(job_id).reason) == (JobState.FAILED, "plaintext_secrets")


@pytest.mark.parametrize(
    ("robots", "allowed"),
    [
        ((200, HTML, b"User-agent: *\nDisallow: /private"), False),
        ((404, HTML, b""), True),
        ((503, HTML, b""), False),  # unreachable: nothing is allowed (RFC 9309)
        ((200, HTML, b"User-agent: other\nDisallow: /"), True),
    ],
)
def test_robots_txt_is_obeyed(valkey_url: str, aws_endpoint: str, robots: Reply, allowed: bool) -> None:
    def answer(seen: Seen) -> Reply:
        return robots if seen.path == "/robots.txt" else page(seen)

    with job_environment(valkey_url, answer) as world:
        world.jobs.domains.put("127.0.0.1", {"requests_per_second": 1_000, "concurrency": 0, "allow_http": True})
        first, second = world.submit("/private"), world.submit("/private?2")
        world.work(first)
        world.work(second)

        assert (world.job(first).state is JobState.DONE) == allowed
        assert world.job(first).reason == ("" if allowed else "robots_disallowed")
        assert len(world.exits("/robots.txt")) == 1  # cached for all workers


def test_a_result_has_the_reason_why_robots_txt_was_ignored(valkey_url: str, aws_endpoint: str) -> None:
    """The override of the operator is recorded and requires a reason."""
    with job_environment(valkey_url) as world:
        job_id = world.submit("/")
        world.work(job_id)

        assert (world.result(job_id)["robots_ignored"], world.exits("/robots.txt")) == ("our own site", [])
        with pytest.raises(Invalid) as refused:
            world.jobs.domains.put("shop.example", {"robots": False})
        assert [error["field"] for error in refused.value.extra["errors"]] == ["reason"]


def test_a_page_over_the_size_limit_is_a_typed_failure(valkey_url: str, aws_endpoint: str) -> None:
    """Inputs 33 and 75: the size is checked before the write that would fail."""
    with job_environment(valkey_url, lambda _: (200, HTML, b"x" * 6_000_000)) as world:
        job_id = world.submit("/")
        world.work(job_id)
        assert (world.job(job_id).reason, len(world.exits())) == ("too_large", 1)
    with job_environment(valkey_url, lambda _: (200, HTML, b"x" * 100_000), job_result_max_bytes=50_000) as world:
        job_id = world.submit("/")
        world.work(job_id)
        assert (world.job(job_id).state, world.job(job_id).reason) == (JobState.FAILED, "result_too_large")


def test_a_large_result_is_stored_in_s3(valkey_url: str, aws_endpoint: str) -> None:
    """Input 75: an item holds 400 KB."""
    body = bytes(range(33, 126)) * 20_000
    noise = b"".join(bytes([33 + (i * i + i // 7) % 90]) for i in range(400_000))
    with job_environment(valkey_url, lambda _: (200, {"content-type": "text/plain"}, noise + body)) as world:
        job_id = world.submit("/")
        world.work(job_id)

        assert world.job(job_id).processed
        assert world.result(job_id)["data"]["text"].encode() == noise + body


def test_the_raw_page_is_stored_if_its_transform_fails(valkey_url: str, aws_endpoint: str) -> None:
    with job_environment(valkey_url) as world:
        job_id = world.submit("/", transform={"name": "json"})
        world.work(job_id)

        assert (world.job(job_id).state, world.job(job_id).reason) == (JobState.FAILED, "transform_not_json")
        assert "hello" in world.result(job_id)["data"]["text"]


def a_page_with_links(seen: Seen) -> Reply:
    """Links to four other pages, another site and the start page."""
    anchors = "".join(f"<a href='/p{number}'>x</a>" for number in range(4))
    return (
        200,
        HTML,
        f"<html><h1>{seen.path}</h1>{anchors}<a href='http://other.example/'>o</a><a href='/'>h</a></html>".encode(),
    )


def test_a_crawl_fetches_each_page_once_within_its_budget(valkey_url: str, aws_endpoint: str) -> None:
    with job_environment(valkey_url, a_page_with_links) as world:
        start = world.submit("/", batch="c1", crawl={"depth": 3, "max_pages": 4})
        world.messages()
        world.work(start)
        for _ in range(5):
            waiting = [message["job_key"].rpartition("/")[2] for message in world.messages()]
            if not waiting:
                break
            world.work(*waiting)

        paths = [seen.path for seen in world.site.seen]
        assert len(paths) == len(set(paths)) == 4
        assert world.jobs.batch("ann", "c1")["progress"] == 1.0
        assert world.jobs.batch("ann", "c1")["jobs"] == 4


def test_a_replay_runs_the_page_again_and_is_counted(valkey_url: str, aws_endpoint: str) -> None:
    """I12."""
    state = {"status": 500}
    with job_environment(valkey_url, lambda _: (state["status"], HTML, b"body")) as world:
        job_id = world.submit("/")
        world.work(job_id)
        assert (world.job(job_id).state, world.job(job_id).reason) == (JobState.FAILED, "http_500")
        state["status"] = 200

        world.jobs.replay("ann", job_id)
        world.work(job_id)

        assert (world.job(job_id).state, world.job(job_id).replays, world.job(job_id).runs) == (JobState.DONE, 1, 2)


def test_an_error_in_one_job_does_not_affect_the_others(
    valkey_url: str, aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I14, inputs 73 and 74: only its message is delivered again, and its job is queued."""
    store = Results.store

    def broken(self: Results, job: Job, value: Any) -> tuple[bytes | None, str]:
        if job.request.url.endswith("/1"):
            raise RuntimeError("it broke")
        return store(self, job, value)

    with job_environment(valkey_url) as world:
        jobs = [world.submit(f"/{number}") for number in range(3)]
        with monkeypatch.context() as patch:
            patch.setattr(Results, "store", broken)
            outcomes = world.work(*jobs)

        assert outcomes.retries == {f"ann/{jobs[1]}": "RuntimeError"}
        assert [world.job(job_id).state.value for job_id in jobs] == ["done", "queued", "done"]
        world.work(*jobs)
        assert [world.job(job_id).runs for job_id in jobs] == [1, 2, 1]
        assert world.job(jobs[1]).processed


def test_no_page_is_lost_if_the_table_is_throttled_or_refuses_writes(
    valkey_url: str, aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Input 76: the messages are delivered again; no result is lost or stored twice."""
    with job_environment(valkey_url) as world:
        jobs = [world.submit(f"/{number}") for number in range(3)]
        with monkeypatch.context() as patch:
            patch.setattr(JobTable, "finish", throttled)
            assert set(world.work(*jobs).retries.values()) == {"Throttled"}
        with monkeypatch.context() as patch:
            patch.setattr(
                JobTable, "finish", lambda _, endings, **__: [StatementRefused("ValidationError") for _ in endings]
            )
            assert set(world.work(*jobs).retries.values()) == {"StatementRefused"}
        assert {world.job(job_id).state for job_id in jobs} == {JobState.QUEUED}

        world.work(*jobs)

        assert {world.job(job_id).state for job_id in jobs} == {JobState.DONE}
        assert {world.job(job_id).replays for job_id in jobs} == {0}


def test_a_retried_call_whose_response_was_lost_has_one_effect(
    valkey_url: str, aws_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs 71 and 76: the AWS client retries the call; the run continues, finishes and publishes its event."""

    def twice(statements: Any) -> list[bool | StatementRefused]:
        execute_each(statements)
        return execute_each(statements)

    monkeypatch.setattr(jobs_table, "execute_each", twice)
    with job_environment(valkey_url) as world:
        job_id = world.submit("/")
        outcomes = world.work(job_id)

        assert (outcomes.counts["done"], outcomes.counts["overtaken"], outcomes.held) == (1, 0, {})
        assert (world.job(job_id).state, world.job(job_id).runs) == (JobState.DONE, 1)
        assert len(world.site.seen) == 1


def throttled(*_: Any, **__: Any) -> None:
    raise Throttled(1)


def test_a_request_whose_token_is_missing_is_not_sent(valkey_url: str, aws_endpoint: str) -> None:
    """Input 88."""
    with job_environment(valkey_url) as world:
        headers = {"Authorization": "Bearer {token:access}"}
        job_id = world.submit("/", headers=headers, session_id="s1", allow_plaintext_secrets=True)

        world.work(job_id)

        assert (world.job(job_id).state, world.job(job_id).reason) == (JobState.FAILED, "token_missing")
        assert world.site.seen == []


def test_cookies_over_the_limit_of_a_session_are_counted(valkey_url: str, aws_endpoint: str) -> None:
    """Input 54: the oldest are dropped and counted in a metric."""
    many = "\n".join(f"c{number}=1; Path=/" for number in range(60))
    with job_environment(valkey_url, lambda _: (200, {"set-cookie": many}, b"hello")) as world:
        outcomes = world.work(world.submit("/", session_id="s1"))

        assert outcomes.counts["cookies_dropped"] == 10


def test_a_message_contains_no_secrets(valkey_url: str, aws_endpoint: str) -> None:
    """I19: only the key of the job."""
    with job_environment(valkey_url) as world:
        job_id = world.submit("/", headers={"Authorization": "Bearer s3cr3t"}, allow_plaintext_secrets=True)

        assert world.messages() == [{"v": 1, "job_key": f"ann/{job_id}"}]
        assert "s3cr3t" not in json.dumps(world.jobs.show("ann", job_id))
