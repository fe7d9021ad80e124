"""The pure rules behind the stages: spellings of our address, cadence, target rules, blame, where an exit stands."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from proxypool.checks import blame
from proxypool.checks.anonymity import anonymity
from proxypool.checks.cadence import is_full, is_suspect
from proxypool.checks.canary import canary
from proxypool.checks.check import Blame, Check, Reason, TargetVerdict, Verdict
from proxypool.checks.checkers import BUILT_IN, Stage, stages
from proxypool.checks.checkers.exit import note_exit
from proxypool.checks.context import StageFailed
from proxypool.checks.direct import bench, judges
from proxypool.checks.explain import explain
from proxypool.checks.geo import Whereabouts, locator
from proxypool.checks.judge import Seen
from proxypool.checks.rule import Rule, judge_answer, read_rule, read_rules
from proxypool.checks.status import MAX_OTHER_EXITS, fold
from proxypool.errors import ConfigurationError
from proxypool.leases.index import REMOVED, entry
from proxypool.proxies.proxy import Anonymity, Status
from proxypool.proxies.record import CheckFacts, TargetFact, fresh_until
from proxypool.settings import Settings

from tests.support.builders import NOW, a_record
from tests.support.mmdb import write_database

V4, V6 = "203.0.113.9", "2001:db8::9"


@pytest.mark.parametrize(
    "text",
    [
        "203.0.113.9",
        "for=203.0.113.9:4711;proto=http",
        "203.000.113.009",
        "3405803785",
        "0xCB007109",
        "cb007109",
        "ec2-203-0-113-9.compute.example",
        "::ffff:203.0.113.9",
        "::FFFF:CB00:7109",
        "%3A%3Affff%3A203.0.113.9",
        "2001:DB8:0:0:0:0:0:9",
        'for="[2001:db8::9]:4711"',
        "2001:0db8:0000:0000:0000:0000:0000:0009",
    ],
)
def test_our_address_is_found_in_every_spelling(text: str) -> None:
    """Input 42: v4 and v6, in a header of any name."""
    assert anonymity([("x-whatever", text)], own=frozenset({V4, V6}), direct=frozenset()) is Anonymity.TRANSPARENT


@pytest.mark.parametrize(
    "text", ["203.0.113.99", "1203.0.113.9", "203.0.113.9.1", "34058037850", "2001:db8::91", "9", "a:b"]
)
def test_another_address_is_not_ours(text: str) -> None:
    assert anonymity([("x-whatever", text)], own=frozenset({V4, V6}), direct=frozenset()) is Anonymity.ELITE


@pytest.mark.parametrize(
    ("facts", "full"),
    [
        ({}, False),
        ({"light": 5}, True),  # every sixth
        ({"failures_in_row": 1}, True),  # it just failed
        ({"tampered": True}, True),
        ({"targets": {"a.example": TargetFact(verdict="banned", at=NOW)}}, True),
        ({"targets": {"a.example": TargetFact(verdict="ok", at=NOW)}}, False),
    ],
)
def test_tls_is_asked_of_a_steady_proxy_every_sixth_time_only(facts: dict[str, Any], full: bool) -> None:
    record = a_record(status=Status.ACTIVE, check=CheckFacts(**facts))

    assert is_full(record, every=6) is full
    assert is_full(a_record(), every=6)  # never checked


def test_a_light_check_keeps_what_only_a_full_one_finds() -> None:
    targets = {"a.example": TargetVerdict.BANNED}
    first = Check(
        proxy_id="p", checked_at=NOW, verdict=Verdict.PASSED, https=True, exits=("1.1.1.1", "2.2.2.2"), targets=targets
    )
    light = Check(proxy_id="p", checked_at=NOW, verdict=Verdict.PASSED, exits=("1.1.1.1",), full=False)

    record = a_record()
    for check in (first, light):
        record = fold(record, check, active_seconds=600, dead_seconds=1)

    facts = record.check
    assert (facts.https, facts.exit_ip, facts.exits, facts.light) == (True, "2.2.2.2", ("1.1.1.1",), 1)
    assert facts.targets["a.example"].verdict == "banned"


def test_a_rotating_proxy_remembers_a_few_exits() -> None:
    """Input 45."""
    record = a_record()
    for number in range(9):
        check = Check(proxy_id="p", checked_at=NOW, verdict=Verdict.PASSED, exits=(f"1.1.1.{number}",))
        record = fold(record, check, active_seconds=600, dead_seconds=1)

    assert record.check.exit_ip == "1.1.1.8"
    assert record.check.exits == ("1.1.1.5", "1.1.1.6", "1.1.1.7")
    assert len(record.check.exits) == MAX_OTHER_EXITS


def test_black_hole_suspects_are_begun_first() -> None:
    records = [a_record(1), a_record(2, check=CheckFacts(reason=Reason.TIMEOUT)), a_record(3)]

    assert sorted(records, key=is_suspect, reverse=True)[0] is records[1]


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (200, b"the price is 5", TargetVerdict.OK),
        (200, b'{"err": "limit"}', TargetVerdict.BANNED),  # case 7: a ban with status 200
        (200, b"price, after this captcha", TargetVerdict.BANNED),
        (403, b"price", TargetVerdict.BANNED),
        (302, b"", TargetVerdict.BANNED),
        (500, b"", TargetVerdict.FAILED),  # case 29: the target's own fault
        (503, b"captcha", TargetVerdict.BANNED),  # a sign of a ban is one, whatever the status
    ],
)
def test_a_targets_answer_is_read_by_its_rule(status: int, body: bytes, verdict: TargetVerdict) -> None:
    """Cases 7, 29."""
    rule = Rule(host="shop.example", port=443, scheme="https", path="/", contains=("price",), lacks=("captcha",))

    assert judge_answer(rule, status, body) is verdict


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/", "https://169.254.169.254/latest", "https://[::1]/", "https://printer/", "https://db.internal/",
        "https://host.local/", "ftp://shop.example/", "https://user:pw@shop.example/", "https://2130706433/", "none",
    ],
)  # fmt: skip
def test_a_target_is_vetted_by_its_spelling(url: str) -> None:
    """Input 47."""
    with pytest.raises(ValueError):
        read_rule({"url": url})


@pytest.mark.parametrize(
    "rules",
    [
        [{"url": f"https://shop{n}.example/"} for n in range(9)],  # too many
        [{"url": "https://shop.example/a"}, {"url": "https://shop.example/b"}],  # two for one host
        [{"url": "https://shop.example/", "contains": [""]}],  # is in every page
    ],
)
def test_rules_have_bounds(rules: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError):
        read_rules(rules)


@pytest.mark.parametrize("reason", list(Reason))
def test_only_the_proxy_and_its_credentials_can_fail_a_check(reason: Reason) -> None:
    """I7: what the judge or we did is inconclusive."""
    culprit = blame.blame(reason)

    assert (blame.verdict(reason) is Verdict.FAILED) is (culprit in (Blame.PROXY, Blame.CREDENTIALS))
    if reason in (Reason.JUDGE_DOWN, Reason.NO_ROUTE, Reason.UNSUPPORTED):
        assert blame.verdict(reason) is Verdict.INCONCLUSIVE


def test_a_package_adds_a_stage_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(_: object) -> None: ...

    mine = Stage(name="mine", order=55, ask=ask, needed=False)

    class Point:
        def load(self) -> Stage:
            return mine

    monkeypatch.setattr(
        "proxypool.checks.checkers.entry_points", lambda *, group: [Point()] if "checkers" in group else []
    )
    stages.cache_clear()
    try:
        names = [stage.name for stage in stages()]
    finally:
        monkeypatch.undo()
        stages.cache_clear()

    assert names.index("https") + 1 == names.index("mine")
    assert len(names) == len(BUILT_IN) + 1


def test_the_canary_is_another_page_for_each_nonce_and_key() -> None:
    """Input 43: nobody can make it up, or keep it."""
    pages = {canary(b"key", "0" * 32), canary(b"key", "1" * 32), canary(b"other", "0" * 32)}

    assert len(pages) == 3
    assert all(b"</body>" in page for page in pages)


def test_judges_are_read_from_the_settings_in_order() -> None:
    known = Settings(
        judge_url="http://a.example/, http://b.example:81/", judge_https_url="https://a.example/",
        judge_echo_urls=("http://echo.example/get",),
    )  # fmt: skip

    first, second, echo = judges(known, b"key")

    assert (first.plain.host, first.secure and first.secure.port, first.key) == ("a.example", 443, b"key")
    assert (second.plain.port, second.secure) == (81, None)
    assert (echo.is_echo, echo.key, echo.secure and echo.secure.scheme) == (True, None, "https")
    with pytest.raises(ConfigurationError):
        judges(Settings(), b"key")


def test_a_canary_without_a_digest_is_refused() -> None:
    with pytest.raises(ValueError):
        bench(Settings(judge_url="http://judge.example/", canary_urls=("https://page.example/#12",)), b"key")


def test_a_database_says_where_an_exit_stands(tmp_path: Path) -> None:
    city, asn = tmp_path / "city.mmdb", tmp_path / "asn.mmdb"
    write_database(city, {"country": {"iso_code": "DE"}, "subdivisions": [{"iso_code": "BE"}]})
    write_database(asn, {"autonomous_system_number": 64_496})

    locate = locator((str(city), str(asn)))

    assert locate("198.51.100.7") == Whereabouts(country="de", region="be", asn=64_496)
    assert locate("8.8.8.8") == Whereabouts()


@pytest.mark.parametrize(
    "peer", ["10.0.0.1", "::ffff:10.0.0.1", "100.64.0.9", "fd00::1", "169.254.169.254", V4, "nonsense"]
)
def test_an_exit_that_is_private_or_our_own_is_a_loop(peer: str) -> None:
    """Input 46: also where the judge itself says so, signed."""
    probe: Any = SimpleNamespace(
        bench=SimpleNamespace(own=frozenset({V4}), allow_loopback=False, locate=None), exits=[]
    )

    with pytest.raises(StageFailed, match=Reason.LOOP):
        note_exit(probe, Seen(peer=peer, headers=(), scheme="http", signed=True))


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(
    "facts", [{}, {"tampered": True}, {"failures_in_row": 1}, {"interval_seconds": 7_200}, {"https": False}]
)
@pytest.mark.parametrize("age_hours", [None, 0, 2, 7])
def test_explain_calls_leasable_what_the_index_takes(
    status: Status, facts: dict[str, Any], age_hours: int | None
) -> None:
    """I7: the same answer as the ready index gives, with its reasons."""
    checked_at = None if age_hours is None else NOW - timedelta(hours=age_hours)
    record = a_record(status=status, check=CheckFacts(**facts), last_checked_at=checked_at, next_check_at=NOW)
    fresh = fresh_until(record, Settings().max_age_seconds)
    is_indexed = entry(record, Settings().max_age_seconds) != REMOVED and fresh is not None and fresh >= NOW

    found = explain(record, NOW, Settings())

    assert found["leasable"] is is_indexed
    assert bool(found["reasons"]) is not is_indexed


def test_explain_tells_of_a_target_rule_that_the_proxy_was_never_asked() -> None:
    steady = CheckFacts(passed=9, count=9, light=1)
    record = a_record(status=Status.ACTIVE, check=steady, last_checked_at=NOW, next_check_at=NOW)

    asks = [
        explain(record, NOW, Settings(), targets=hosts)["next"]["asks"]
        for hosts in (frozenset(), frozenset({"a.example"}))
    ]

    assert asks == ["HTTP, exit and anonymity", "everything"]


def test_explain_says_why_not_and_when_next() -> None:
    good = CheckFacts(passed=9, count=9, latency_ms=100, signed=True, basis="raw",
                      targets={"shop.example": TargetFact(verdict="banned", at=NOW)})  # fmt: skip
    bad = CheckFacts(passed=1, failed=1, count=2, failures_in_row=1, reason="timeout", blame="proxy", tampered=True)
    at = NOW + timedelta(seconds=600)

    leased = explain(a_record(status=Status.ACTIVE, check=good, last_checked_at=NOW, next_check_at=at), NOW, Settings())
    held_back = explain(
        a_record(status=Status.ACTIVE, check=bad, last_checked_at=NOW, next_check_at=at), NOW, Settings()
    )
    stale = explain(a_record(status=Status.DEAD, check=good, last_checked_at=NOW, next_check_at=at),
                    NOW + timedelta(hours=2), Settings())  # fmt: skip

    assert (leased["leasable"], leased["reasons"], leased["not_for"]) == (True, [], ["shop.example"])
    assert leased["next"] == {"at": "2026-11-30T12:10:00.000Z", "because": "its regular check", "asks": "everything"}
    assert held_back["reasons"] == [
        "it alters what it carries",
        "the last check failed: timeout (blame: proxy), 1 in a row",
    ]
    assert held_back["evidence"]["uptime"] == 0.5
    assert stale["reasons"] == ["status is dead", "the last check is too old"]
