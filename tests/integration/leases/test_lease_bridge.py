"""expire_leases between a real Valkey and the emulated DynamoDB: journal, ledger, evidence, settings, rebuild."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from proxypool import aws, clock
from proxypool.aws.dynamodb import Throttled
from proxypool.aws.state import GAUGES, REBUILD_WANTED, SETTINGS
from proxypool.config.settings import Settings
from proxypool.errors import NotFound, Paused, Rebuilding
from proxypool.leases import expire
from proxypool.leases.build import build_bridge, build_pool
from proxypool.leases.expire import Bridge
from proxypool.leases.ledger.journal import LedgerRow
from proxypool.leases.pool import Pool, Request
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.table import to_item
from proxypool.telemetry import flush, metrics
from proxypool_client.outcome import Outcome

from tests.support.clock import Clock
from tests.support.leases import a_record, keys_of
from tests.support.servers import create_tables


def in_time() -> float:
    """An instant of the monotonic clock that no step reaches."""
    return time.monotonic() + 100


@dataclass
class BridgeStack:
    """One pool with its tables."""

    bridge: Bridge
    pool: Pool

    def run(self) -> dict[str, int]:
        """One run of the bridge."""
        return self.bridge.run(uuid.uuid4().hex, until=in_time())

    def store(self, *records: ProxyRecord) -> None:
        """Puts rows into the proxies table."""
        for record in records:
            table_name, item = self.bridge.proxies.table_name, to_item(record).serialize()
            aws.client("dynamodb").put_item(TableName=table_name, Item=item)


@pytest.fixture
def stack(valkey_url: str, aws_endpoint: str) -> Iterator[BridgeStack]:
    """A new pool, filled with two proxies by its first run."""
    name = f"t{uuid.uuid4().hex[:10]}"
    tables = create_tables(name)
    settings = Settings(
        redis_url=valkey_url, pool=name, cache_loss="availability", pool_low_filters=("country=de:https=true", "kind=mobile"),
        leases_table=tables["LeasesTable"], proxies_table=tables["ProxiesTable"], state_table=tables["StateTable"],
    )  # fmt: skip
    bridge = build_bridge(settings)
    stack = BridgeStack(bridge, build_pool(settings, bridge.cache))
    stack.store(a_record(1), a_record(2))
    assert stack.run()["count_rebuilt"] == 2
    yield stack
    bridge.cache.close()


def wipe(stack: BridgeStack) -> None:
    """Loses the pool's keys, as a failover of the cache does."""
    for key in keys_of(stack.bridge.cache):
        stack.bridge.cache.command("DEL", key)


def test_a_lease_ends_in_the_ledger_with_its_outcome(stack: BridgeStack) -> None:
    """I23: one row per lease, with owner, proxy, outcome; the proxy's evidence grows; the journal is empty."""
    leases, _ = stack.pool.acquire("ann", Request(ttl_seconds=60, count=2))
    stack.pool.release("ann", leases[0].id, Outcome.PROXY_ERROR)
    counts = stack.run()

    done, still = stack.bridge.ledger.get(leases[0].id), stack.bridge.ledger.get(leases[1].id)

    assert done is not None
    assert still is not None
    assert (done.owner, done.proxy_id, done.ended, done.outcome) == (
        "ann",
        leases[0].proxy_id,
        "released",
        "proxy_error",
    )
    assert done.open_shard is None
    assert (still.ended, still.open_shard is not None) == (None, True)
    assert (counts["leases_open"], counts["journal_length"], counts["ready"]) == (1, 0, 1)
    record = stack.bridge.proxies.get(leases[0].proxy_id)
    assert record is not None
    assert (record.lease.bad, record.lease.ok, record.lease.granted) == (1.0, 0.0, 1)
    gauges = stack.bridge.state.get(GAUGES)
    assert gauges["leases_open"] == 1
    assert gauges["ready_by"] == {"country=de,https=true": 1, "kind=mobile": 0}


@pytest.mark.parametrize(("mark", "is_low"), [(0, 0), (2, 0), (3, 1)])
def test_the_pool_is_low_below_the_mark_of_the_settings(
    stack: BridgeStack, capsys: pytest.CaptureFixture[str], mark: int, is_low: int
) -> None:
    """The alarm PoolIsLow watches this metric, so that its threshold follows the setting."""
    metrics.clear_metrics()  # of the run that filled the pool with two proxies

    replace(stack.bridge, low_mark=mark).gauge(clock.now())
    flush()

    (told,) = (json.loads(line) for line in capsys.readouterr().out.splitlines() if "PoolLow" in line)
    assert told["PoolLow"] == [is_low]


def test_a_refusal_of_an_unknown_reason_makes_no_metric_of_its_own(
    stack: BridgeStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """Input 90: it is "other", however many names are made up."""
    for number in range(50):
        stack.bridge.cache.command("HINCRBY", stack.bridge.cache.keys.tag + ":refused", f"x{number}", 1)
    stack.bridge.cache.command("HINCRBY", stack.bridge.cache.keys.tag + ":refused", "quota", 1)

    stack.run()

    told = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "LeasesRefused" in line]
    assert {one["reason"] for one in told} == {"other", "quota"}


def test_an_interrupted_or_overlapping_drain_has_no_effect(stack: BridgeStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """I23: a run that dies before its trim is repeated; the second time nothing is added."""
    lease = stack.pool.acquire("ann", Request(ttl_seconds=60))[0][0]
    stack.pool.report("ann", lease.id, Outcome.OK)
    stack.pool.release("ann", lease.id)
    whole = stack.bridge.cache.command("XRANGE", stack.bridge.cache.keys.journal, "-", "+")

    def torn(stream_id: str) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(expire, "_after", torn)
        with pytest.raises(KeyboardInterrupt):
            stack.run()
    first = stack.bridge.proxies.get(lease.proxy_id)
    row = stack.bridge.ledger.get(lease.id)
    assert stack.run()["count_journal"] == len(whole)

    second = stack.bridge.proxies.get(lease.proxy_id)
    repeated = stack.bridge.ledger.get(lease.id)
    assert first is not None
    assert row is not None
    assert repeated is not None
    assert first == second
    assert first.lease.granted == 1
    assert row.attribute_values == repeated.attribute_values


def test_an_end_is_final_and_a_renewal_only_extends(stack: BridgeStack) -> None:
    """I23: each prefix of the journal, replayed behind the whole, leaves the rows as they are."""
    lease = stack.pool.acquire("ann", Request(ttl_seconds=10))[0][0]
    stack.run()
    stack.pool.renew("ann", lease.id, 500)
    stack.run()
    row = stack.bridge.ledger.get(lease.id)
    assert row is not None
    open_row = LedgerRow(
        lease_id=lease.id, owner="ann", proxy_id=lease.proxy_id,
        granted_ms=clock.epoch_ms(lease.granted_at), expires_ms=clock.epoch_ms(lease.expires_at),
    )  # fmt: skip

    assert row.expires_at > clock.epoch(lease.expires_at)
    assert stack.bridge.ledger.write([open_row]) == 0
    ended = replace(open_row, ended="released", ended_ms=clock.epoch_ms(lease.expires_at))
    assert stack.bridge.ledger.write([ended]) == 1
    assert stack.bridge.ledger.write([ended]) == 0
    assert stack.bridge.ledger.write([replace(open_row, expires_ms=2_000_000_000_000)]) == 0
    assert list(stack.bridge.ledger.overdue(3_000_000_000, limit=10)) == []


def test_overdue_leases_are_written_as_expired(stack: BridgeStack, clock: Clock) -> None:
    """I4: the run frees them, journals their end and closes their rows."""
    lease = stack.pool.acquire("ann", Request(ttl_seconds=1))[0][0]
    clock.move(seconds=1)

    counts = stack.run()

    row = stack.bridge.ledger.get(lease.id)
    assert row is not None
    assert (counts["count_expired"], counts["ready"], row.ended) == (1, 2, "expired")


def test_a_lost_cache_is_rebuilt_and_its_leases_are_closed(stack: BridgeStack) -> None:
    """Input 78, availability: leases open again with the run; rows of lost leases end as lost."""
    lease = stack.pool.acquire("ann", Request(ttl_seconds=60))[0][0]
    stack.run()
    wipe(stack)
    with pytest.raises(Rebuilding):
        stack.pool.acquire("ann", Request(ttl_seconds=60))

    assert stack.run()["count_rebuilt"] == 2

    assert len(stack.pool.acquire("bob", Request(ttl_seconds=60, count=2))[0]) == 2
    assert stack.bridge.close_lost(clock.now() + timedelta(seconds=30)) == 0
    assert stack.bridge.close_lost(clock.now() + timedelta(seconds=130)) == 1
    row = stack.bridge.ledger.get(lease.id)
    assert row is not None
    assert row.ended == "lost"


def test_a_strict_pool_waits_until_no_lost_lease_can_live(stack: BridgeStack) -> None:
    """Input 78, I1: strict opens only when max_lease_seconds have passed since the loss was seen."""
    wipe(stack)
    strict, seen = replace(stack.bridge, strict=True, max_lease_seconds=900), clock.now()

    assert strict.heal(seen, in_time()) == 2
    assert strict.heal(seen + timedelta(seconds=899), in_time()) == 0
    with pytest.raises(Rebuilding):
        stack.pool.acquire("ann", Request(ttl_seconds=60))
    strict.heal(seen + timedelta(seconds=901), in_time())

    assert stack.pool.acquire("ann", Request(ttl_seconds=60))[0]


def test_the_operators_settings_reach_acquire(stack: BridgeStack) -> None:
    """Input 91: the kill switch stops leases with the next run, and lets go again."""
    stack.bridge.state.put(SETTINGS, {"paused": True, "owner_quota": 1})
    stack.run()
    with pytest.raises(Paused):
        stack.pool.acquire("ann", Request(ttl_seconds=60))

    stack.bridge.state.put(SETTINGS, {"paused": False, "owner_quota": 1})
    stack.run()

    assert len(stack.pool.acquire("ann", Request(ttl_seconds=60, count=2))[0]) == 1


def test_two_runs_do_not_overlap(stack: BridgeStack) -> None:
    """The second finds the lock and does nothing; the lock goes with its run."""
    stack.bridge.cache.command("SET", stack.bridge.cache.keys.lock, "other")

    assert stack.run() == {"locked": 1}
    assert stack.bridge.cache.command("GET", stack.bridge.cache.keys.lock) == "other"


def test_the_operators_rates_and_caps_reach_acquire_and_leave_it(stack: BridgeStack) -> None:
    """I20: what is not set any more does not hold any more."""
    stack.bridge.state.put(
        SETTINGS,
        {"exit_cap": 2, "breaker_failures": 3, "breaker_seconds": 9, "rates": ["shop.example=10/60+2", "*=1/1"]},
    )
    stack.bridge.copy_settings()
    cache = stack.bridge.cache
    names = ("exit_cap", "breaker_failures", "breaker_ms", "rate:shop.example", "rate:*", "owner_quota")

    assert cache.command("HMGET", cache.keys.settings, *names) == ["2", "3", "9000", "6000 3", "1000 1", None]
    stack.bridge.state.put(SETTINGS, {"rates": ["shop.example=1/2"]})
    stack.bridge.copy_settings()
    assert cache.command("HMGET", cache.keys.settings, *names) == [None, None, None, "2000 1", None, None]
    assert cache.command("HGET", cache.keys.settings, "epoch")


def test_the_next_run_continues_an_unfinished_scan(stack: BridgeStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 78: a fill is bounded in time; until it is done nothing is leased."""
    monkeypatch.setattr(expire, "RECORDS_PER_PAGE", 1)
    wipe(stack)
    ticks = iter([0.0, 9.0])
    with monkeypatch.context() as patch:
        patch.setattr(expire, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
        assert stack.bridge.heal(clock.now(), 5.0) == 1
    with pytest.raises(Rebuilding):
        stack.pool.acquire("ann", Request(ttl_seconds=60))

    assert stack.bridge.heal(clock.now(), in_time()) == 1

    assert len(stack.pool.acquire("ann", Request(ttl_seconds=60, count=2))[0]) == 2


def test_a_requested_rebuild_is_run_once(stack: BridgeStack) -> None:
    """I11: the index is rebuilt, leases continue."""
    lease = stack.pool.acquire("ann", Request(ttl_seconds=60))[0][0]
    for key in keys_of(stack.bridge.cache):
        if ":r:" in key:
            stack.bridge.cache.command("DEL", key)
    stack.bridge.state.put(REBUILD_WANTED, {"at": clock.iso(clock.now())})

    assert stack.run()["count_rebuilt"] == 2
    assert stack.run()["count_rebuilt"] == 0

    assert stack.pool.list_leases("ann") == [lease]
    assert stack.pool.acquire("bob", Request(ttl_seconds=60))[0][0].proxy_id != lease.proxy_id


def test_a_throttled_table_keeps_the_journal(stack: BridgeStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """I23, input 76: the run fails and gives its lock back, nothing is trimmed, the next run writes it all."""
    lease = stack.pool.acquire("ann", Request(ttl_seconds=60))[0][0]
    with monkeypatch.context() as patch:
        patch.setattr("proxypool.aws.dynamodb._codes", lambda statements: ["ThrottlingError" for _ in statements])
        patch.setattr("proxypool.aws.dynamodb.time.sleep", lambda _: None)
        with pytest.raises(Throttled):
            stack.run()

    assert stack.run()["count_journal"] == 1
    assert stack.bridge.ledger.get(lease.id) is not None


def test_an_invalid_journal_entry_is_skipped(stack: BridgeStack) -> None:
    """I23, input 82: it is counted and passed over, its neighbours are written."""
    log = stack.bridge.cache.keys.journal
    stack.bridge.cache.command("XADD", log, "*", "g", "from|another|version")
    stack.bridge.cache.command("XADD", log, "*", "?", "x")
    lease = stack.pool.acquire("ann", Request(ttl_seconds=60))[0][0]

    counts = stack.run()

    assert (counts["count_journal"], counts["journal_length"]) == (1, 0)
    assert stack.bridge.ledger.get(lease.id) is not None


def test_a_renewal_that_races_its_expiry_has_one_outcome(stack: BridgeStack, clock: Clock) -> None:
    """I5, I23: renewed while the run drains, then expired; the ledger holds the later end and one ending."""
    clock.stop()
    lease = stack.pool.acquire("ann", Request(ttl_seconds=1, target="shop.example"))[0][0]
    stack.run()
    stack.pool.renew("ann", lease.id, 3)
    assert stack.run()["count_expired"] == 0
    clock.move(seconds=3)
    with pytest.raises(NotFound):
        stack.pool.renew("ann", lease.id, 60)

    stack.run()

    row = stack.bridge.ledger.get(lease.id)
    assert row is not None
    assert (row.ended, row.target) == ("expired", "shop.example")
    assert row.open_shard is None
    assert row.expires_at > lease.expires_at.timestamp()


def test_overlapping_drainers_write_each_lease_once(stack: BridgeStack) -> None:
    """I23: two runs over the same stretch, one without the lock; the second trims nothing that came since."""
    leases, _ = stack.pool.acquire("ann", Request(ttl_seconds=60, count=2))
    for lease in leases:
        stack.pool.release("ann", lease.id, Outcome.OK)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: stack.bridge.drain(in_time()), range(2)))
    late = stack.pool.acquire("bob", Request(ttl_seconds=60))[0][0]

    assert stack.run()["count_journal"] == 1

    for lease in leases:
        record = stack.bridge.proxies.get(lease.proxy_id)
        assert record is not None
        assert record.lease.ok == 1.0
        assert record.lease.granted == 1 + (late.proxy_id == lease.proxy_id)
