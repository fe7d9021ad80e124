"""Pure rules of the stages: spellings of our address, recheck schedule, target rules, blame, location of the exit IP."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from proxypool.checks.check import Blame, Check, Reason, TargetVerdict, Verdict
from proxypool.checks.judge.answer import Observation
from proxypool.checks.judge.canary import canary_page
from proxypool.checks.judge.judges import build_context, configured_judges
from proxypool.checks.probe.checkers import BUILT_IN_STAGES, Stage, stages
from proxypool.checks.probe.checkers.exit import record_exit
from proxypool.checks.probe.context import StageFailed
from proxypool.checks.probe.geo import Location, open_databases
from proxypool.checks.rules.anonymity import anonymity_level
from proxypool.checks.rules.blame import blame_for, verdict_for
from proxypool.checks.rules.cadence import is_likely_slow, needs_full_check
from proxypool.checks.rules.explain import explain
from proxypool.checks.rules.status import MAX_OTHER_EXITS, apply_check
from proxypool.checks.rules.target import TargetRule, parse_rule, parse_rules, target_verdict
from proxypool.config.settings import Settings
from proxypool.errors import ConfigurationError
from proxypool.leases.index.ready import REMOVED_VALUES, upsert_values
from proxypool.proxies.proxy import Anonymity, Status
from proxypool.proxies.record import CheckFacts, TargetFact, fresh_until

from tests.support.builders import NOW, a_record
from tests.support.mmdb import write_database

V4, V6 = "203.0.113.9", "2001:db8::9"


def level_of_header(value: str) -> Anonymity:
    """The level of a request with this header value, for a pool with the addresses V4 and V6."""
    headers = [("x-any", value)]
    return anonymity_level(headers, own_addresses=frozenset({V4, V6}), direct_headers=frozenset())


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
def test_our_address_is_detected_in_every_spelling(text: str) -> None:
    """Input 42: v4 and v6, in a header of any name."""
    assert level_of_header(text) is Anonymity.TRANSPARENT


@pytest.mark.parametrize(
    "text", ["203.0.113.99", "1203.0.113.9", "203.0.113.9.1", "34058037850", "2001:db8::91", "9", "a:b"]
)
def test_another_address_is_not_ours(text: str) -> None:
    assert level_of_header(text) is Anonymity.ELITE


@pytest.mark.parametrize(
    ("facts", "full"),
    [
        ({}, False),
        ({"checks_since_full": 5}, True),  # every sixth
        ({"failures_in_row": 1}, True),  # it just failed
        ({"tampered": True}, True),
        ({"targets": {"a.example": TargetFact(verdict="banned", at=NOW)}}, True),
        ({"targets": {"a.example": TargetFact(verdict="ok", at=NOW)}}, False),
    ],
)
def test_every_sixth_check_of_a_stable_proxy_is_full(facts: dict[str, Any], full: bool) -> None:
    record = a_record(status=Status.ACTIVE, check=CheckFacts(**facts))

    assert needs_full_check(record, every_nth=6) is full
    assert needs_full_check(a_record(), every_nth=6)  # never checked


def test_a_check_that_is_not_full_preserves_the_results_of_the_last_full_one() -> None:
    targets = {"a.example": TargetVerdict.BANNED}
    first = Check(
        proxy_id="p", checked_at=NOW, verdict=Verdict.PASSED, https=True, exits=("1.1.1.1", "2.2.2.2"), targets=targets
    )
    light = Check(proxy_id="p", checked_at=NOW, verdict=Verdict.PASSED, exits=("1.1.1.1",), full=False)

    record = a_record()
    for check in (first, light):
        record = apply_check(record, check, active_seconds=600, dead_seconds=1)

    facts = record.check
    assert (facts.https, facts.exit_ip, facts.exits, facts.checks_since_full) == (True, "2.2.2.2", ("1.1.1.1",), 1)
    assert facts.targets["a.example"].verdict == "banned"


def test_a_few_exits_of_a_rotating_proxy_are_stored() -> None:
    """Input 45."""
    record = a_record()
    for number in range(9):
        check = Check(proxy_id="p", checked_at=NOW, verdict=Verdict.PASSED, exits=(f"1.1.1.{number}",))
        record = apply_check(record, check, active_seconds=600, dead_seconds=1)

    assert record.check.exit_ip == "1.1.1.8"
    assert record.check.exits == ("1.1.1.5", "1.1.1.6", "1.1.1.7")
    assert len(record.check.exits) == MAX_OTHER_EXITS


def test_proxies_that_timed_out_are_checked_first() -> None:
    records = [a_record(1), a_record(2, check=CheckFacts(reason=Reason.TIMEOUT)), a_record(3)]

    assert sorted(records, key=is_likely_slow, reverse=True)[0] is records[1]


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (200, b"the price is 5", TargetVerdict.OK),
        (200, b'{"err": "limit"}', TargetVerdict.BANNED),  # case 7: a ban with status 200
        (200, b"price, after this captcha", TargetVerdict.BANNED),
        (403, b"price", TargetVerdict.BANNED),
        (302, b"", TargetVerdict.BANNED),
        (500, b"", TargetVerdict.FAILED),  # case 29: the target's own fault
        (503, b"captcha", TargetVerdict.BANNED),  # a sign of a ban counts for any status
    ],
)
def test_a_targets_answer_is_evaluated_by_its_rule(status: int, body: bytes, verdict: TargetVerdict) -> None:
    """Cases 7, 29."""
    rule = TargetRule(host="shop.example", port=443, scheme="https", path="/", contains=("price",), lacks=("captcha",))

    assert target_verdict(rule, status, body) is verdict


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/", "https://169.254.169.254/latest", "https://[::1]/", "https://printer/", "https://db.internal/",
        "https://host.local/", "ftp://shop.example/", "https://user:pw@shop.example/", "https://2130706433/", "none",
    ],
)  # fmt: skip
def test_the_url_of_a_target_rule_is_vetted(url: str) -> None:
    """Input 47."""
    with pytest.raises(ValueError):
        parse_rule({"url": url})


@pytest.mark.parametrize(
    "rules",
    [
        [{"url": f"https://shop{n}.example/"} for n in range(9)],  # too many
        [{"url": "https://shop.example/a"}, {"url": "https://shop.example/b"}],  # two for one host
        [{"url": "https://shop.example/", "contains": [""]}],  # matches every page
    ],
)
def test_target_rules_are_limited(rules: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError):
        parse_rules(rules)


@pytest.mark.parametrize("reason", list(Reason))
def test_only_faults_of_the_proxy_or_its_credentials_fail_a_check(reason: Reason) -> None:
    """I7: a failure of the judge or the pool is inconclusive."""
    is_proxy_at_fault = blame_for(reason) in (Blame.PROXY, Blame.CREDENTIALS)

    assert (verdict_for(reason) is Verdict.FAILED) is is_proxy_at_fault
    if reason in (Reason.JUDGE_DOWN, Reason.NO_ROUTE, Reason.UNSUPPORTED):
        assert verdict_for(reason) is Verdict.INCONCLUSIVE


def test_a_package_adds_a_stage_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(_: object) -> None: ...

    installed = Stage(name="installed", order=55, run=run, required=False)

    class Point:
        def load(self) -> Stage:
            return installed

    monkeypatch.setattr(
        "proxypool.checks.probe.checkers.entry_points", lambda *, group: [Point()] if "checkers" in group else []
    )
    stages.cache_clear()
    try:
        names = [stage.name for stage in stages()]
    finally:
        monkeypatch.undo()
        stages.cache_clear()

    assert names.index("https") + 1 == names.index("installed")
    assert len(names) == len(BUILT_IN_STAGES) + 1


def test_the_canary_page_differs_for_each_nonce_and_key() -> None:
    """Input 43: it cannot be forged or cached."""
    pages = {canary_page(b"key", "0" * 32), canary_page(b"key", "1" * 32), canary_page(b"other", "0" * 32)}

    assert len(pages) == 3
    assert all(b"</body>" in page for page in pages)


def test_judges_are_read_from_the_settings_in_order() -> None:
    settings = Settings(
        judge_url="http://a.example/, http://b.example:81/", judge_https_url="https://a.example/",
        judge_echo_urls=("http://echo.example/get",),
    )  # fmt: skip

    first, second, echo = configured_judges(settings, b"key")

    assert (first.http.host, first.https and first.https.port, first.key) == ("a.example", 443, b"key")
    assert (second.http.port, second.https) == (81, None)
    assert (echo.is_echo, echo.key, echo.https and echo.https.scheme) == (True, None, "https")
    with pytest.raises(ConfigurationError):
        configured_judges(Settings(), b"key")


def test_a_canary_page_without_a_digest_is_rejected() -> None:
    with pytest.raises(ValueError):
        build_context(Settings(judge_url="http://judge.example/", canary_urls=("https://page.example/#12",)), b"key")


def test_an_exit_is_located_in_the_databases(tmp_path: Path) -> None:
    city, asn = tmp_path / "city.mmdb", tmp_path / "asn.mmdb"
    write_database(city, {"country": {"iso_code": "DE"}, "subdivisions": [{"iso_code": "BE"}]})
    write_database(asn, {"autonomous_system_number": 64_496})

    locate = open_databases((str(city), str(asn)))

    assert locate("198.51.100.7") == Location(country="de", region="be", asn=64_496)
    assert locate("8.8.8.8") == Location()


@pytest.mark.parametrize(
    "peer", ["10.0.0.1", "::ffff:10.0.0.1", "100.64.0.9", "fd00::1", "169.254.169.254", V4, "nonsense"]
)
def test_an_exit_that_is_private_or_our_own_is_a_loop(peer: str) -> None:
    """Input 46: even in a signed answer of the judge."""
    probe: Any = SimpleNamespace(
        context=SimpleNamespace(own_addresses=frozenset({V4}), allow_loopback=False, locate=None), exits=[]
    )

    with pytest.raises(StageFailed, match=Reason.LOOP):
        record_exit(probe, Observation(peer=peer, headers=(), scheme="http", signed=True))


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(
    "facts", [{}, {"tampered": True}, {"failures_in_row": 1}, {"interval_seconds": 7_200}, {"https": False}]
)
@pytest.mark.parametrize("age_hours", [None, 0, 2, 7])
def test_explain_and_the_ready_index_agree_on_leasable(
    status: Status, facts: dict[str, Any], age_hours: int | None
) -> None:
    """I7: consistent with the ready index, and with reasons."""
    checked_at = None if age_hours is None else NOW - timedelta(hours=age_hours)
    record = a_record(status=status, check=CheckFacts(**facts), last_checked_at=checked_at, next_check_at=NOW)
    fresh = fresh_until(record, Settings().max_age_seconds)
    is_indexed = (
        upsert_values(record, Settings().max_age_seconds) != REMOVED_VALUES and fresh is not None and fresh >= NOW
    )

    explained = explain(record, NOW, Settings())

    assert explained["leasable"] is is_indexed
    assert bool(explained["reasons"]) is not is_indexed


def test_explain_announces_a_full_check_for_a_new_target_rule() -> None:
    stable = CheckFacts(passed=9, count=9, checks_since_full=1)
    record = a_record(status=Status.ACTIVE, check=stable, last_checked_at=NOW, next_check_at=NOW)

    asks = [
        explain(record, NOW, Settings(), targets=hosts)["next"]["asks"]
        for hosts in (frozenset(), frozenset({"a.example"}))
    ]

    assert asks == ["HTTP, exit and anonymity", "all stages"]


def test_explain_gives_reasons_and_the_next_check() -> None:
    good = CheckFacts(passed=9, count=9, latency_ms=100, signed=True, anonymity_basis="raw",
                      targets={"shop.example": TargetFact(verdict="banned", at=NOW)})  # fmt: skip
    bad = CheckFacts(passed=1, failed=1, count=2, failures_in_row=1, reason="timeout", blame="proxy", tampered=True)
    at = NOW + timedelta(seconds=600)

    leasable = explain(
        a_record(status=Status.ACTIVE, check=good, last_checked_at=NOW, next_check_at=at), NOW, Settings()
    )
    excluded = explain(
        a_record(status=Status.ACTIVE, check=bad, last_checked_at=NOW, next_check_at=at), NOW, Settings()
    )
    stale = explain(a_record(status=Status.DEAD, check=good, last_checked_at=NOW, next_check_at=at),
                    NOW + timedelta(hours=2), Settings())  # fmt: skip

    assert (leasable["leasable"], leasable["reasons"], leasable["not_for"]) == (True, [], ["shop.example"])
    assert leasable["next"] == {"at": "2026-11-30T12:10:00.000Z", "because": "regular check", "asks": "all stages"}
    assert excluded["reasons"] == [
        "alters content",
        "last check failed: timeout (blame: proxy), 1 in a row",
    ]
    assert excluded["evidence"]["uptime"] == 0.5
    assert stale["reasons"] == ["status is dead", "last check is too old"]
