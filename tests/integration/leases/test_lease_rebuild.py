"""The rebuild of the index after a change of its layout, while leasing continues, on Valkey and the emulated DynamoDB."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from proxypool import aws
from proxypool.aws.state import REBUILD_WANTED
from proxypool.config.settings import Settings
from proxypool.leases import expire, filters
from proxypool.leases.build import build_bridge, build_pool
from proxypool.leases.expire import Bridge
from proxypool.leases.index.ready import Index
from proxypool.leases.pool import Lease, Pool, Request
from proxypool.leases.redis.keys import MEMBER_ID, ready_set
from proxypool.proxies.record import ProxyRecord
from proxypool.proxies.table import to_item

from tests.support.lease_filters import fitting, layout_without
from tests.support.leases import a_record, keys_of
from tests.support.servers import create_tables

ALL_READY = ready_set("http", "*", 2)
PROXIES, WORKERS = 60, 4


@dataclass
class RebuildStack:
    """One pool with its tables."""

    bridge: Bridge
    pool: Pool

    def run(self) -> dict[str, int]:
        """One run of the bridge, without a limit of time."""
        return self.bridge.run(uuid.uuid4().hex, until=time.monotonic() + 60)

    def layouts(self) -> set[str]:
        """The layouts of all ready members."""
        members = self.bridge.cache.command("ZRANGE", f"{self.bridge.cache.keys.tag}:{ALL_READY}", 0, -1)
        return {member[: MEMBER_ID.start] for member in members}

    def ready(self) -> int:
        """The number of ready members."""
        return int(self.bridge.cache.command("ZCARD", f"{self.bridge.cache.keys.tag}:{ALL_READY}"))

    def request_rebuild(self) -> None:
        """What `POST /rebuild` does."""
        self.bridge.state.put(REBUILD_WANTED, {"at": "2028-05-17T12:00:00Z"})

    def pool_field(self, name: str) -> str | None:
        """A field of the pool's hash."""
        value: str | None = self.bridge.cache.command("HGET", self.bridge.cache.keys.settings, name)
        return value


@pytest.fixture
def stack(valkey_url: str, aws_endpoint: str) -> Iterator[RebuildStack]:
    """An open pool whose index was filled by an older deployment: its members have no region."""
    name = f"t{uuid.uuid4().hex[:10]}"
    tables = create_tables(name)
    settings = Settings(
        redis_url=valkey_url, pool=name, owner_quota=PROXIES, leases_table=tables["LeasesTable"],
        proxies_table=tables["ProxiesTable"], state_table=tables["StateTable"],
    )  # fmt: skip
    bridge = build_bridge(settings)
    stack = RebuildStack(bridge, build_pool(settings, bridge.cache))
    for number in range(1, PROXIES + 1):
        record = a_record(number, **fitting() | {"exit_ip": f"127.1.0.{number}"})
        aws.client("dynamodb").put_item(TableName=tables["ProxiesTable"], Item=to_item(record).serialize())
    with layout_without("region"):
        assert stack.run()["count_rebuilt"] == PROXIES
    yield stack
    bridge.cache.close()


def test_a_changed_layout_is_rebuilt_once_without_a_request_and_without_a_new_epoch(stack: RebuildStack) -> None:
    epoch, older = stack.pool_field("epoch"), stack.layouts()

    assert stack.run()["count_rebuilt"] == PROXIES
    assert stack.run()["count_rebuilt"] == 0

    assert (stack.layouts(), stack.pool_field("filled")) == ({filters.LAYOUT_VERSION}, filters.LAYOUT_VERSION)
    assert filters.LAYOUT_VERSION not in older
    assert stack.pool_field("epoch") == epoch
    assert stack.pool.acquire("ann", Request(ttl_seconds=60, region="by"))[0]


def test_a_rebuild_that_another_layout_interrupts_starts_at_the_tables_beginning(
    stack: RebuildStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows before the cursor were written with the layout of that time."""
    monkeypatch.setattr(expire, "RECORDS_PER_PAGE", PROXIES // 2)
    with layout_without("source"), stopping_after(pages=1):
        assert stack.bridge.rebuild(5.0) == PROXIES // 2
    with stopping_after(pages=1):
        assert stack.bridge.rebuild(5.0) == PROXIES // 2

    assert stack.run()["count_rebuilt"] == PROXIES - PROXIES // 2
    assert stack.layouts() == {filters.LAYOUT_VERSION}


@contextmanager
def stopping_after(pages: int) -> Iterator[None]:
    """Within, a fill reads this many pages before its time is over."""
    ticks = iter([0.0] * pages + [9.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expire, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
        yield


@contextmanager
def before_page(number: int, act: Callable[[], object]) -> Iterator[None]:
    """Within, `act` runs once, between the reading and the writing of the page with that number."""
    numbers, upsert = itertools.count(1), Index.upsert

    def upsert_later(index: Index, records: Iterable[ProxyRecord], *, again: bool = False) -> int:
        if next(numbers) == number:
            act()
        return upsert(index, records, again=again)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Index, "upsert", upsert_later)
        yield


@pytest.mark.parametrize("page", [1, 2, 3, 4])
def test_a_cache_that_is_lost_during_a_rebuild_is_filled_from_the_tables_beginning(
    stack: RebuildStack, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """I23: the cursor belongs to the lost cache. A pool that is filled from it would open without the rows before it."""
    monkeypatch.setattr(expire, "RECORDS_PER_PAGE", PROXIES // 4)

    def lose() -> None:
        for key in keys_of(stack.bridge.cache):
            stack.bridge.cache.command("DEL", key)

    with before_page(page, lose):
        stack.run()
    stack.run()

    assert stack.ready() == PROXIES
    assert stack.pool_field("filled") == filters.LAYOUT_VERSION


def test_a_request_during_a_rebuild_is_answered_by_another_one(
    stack: RebuildStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were written before the request are written again, whether or not that run had begun by a request, too."""
    monkeypatch.setattr(expire, "RECORDS_PER_PAGE", PROXIES // 2)
    with stopping_after(pages=1):
        assert stack.bridge.rebuild(5.0) == PROXIES // 2
    stack.request_rebuild()

    with before_page(2, stack.request_rebuild):
        assert stack.run()["count_rebuilt"] == PROXIES

    assert [stack.run()["count_rebuilt"] for _ in range(2)] == [PROXIES, 0]


def test_a_run_that_was_overtaken_leaves_no_cursor(stack: RebuildStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock ends before a long run does. A cursor that is left would cut the next rebuild short."""
    monkeypatch.setattr(expire, "RECORDS_PER_PAGE", PROXIES // 4)

    with stopping_after(pages=6), before_page(2, lambda: stack.bridge.rebuild(5.0)):  # 2 pages, 4 by the other run
        stack.bridge.rebuild(5.0)
    assert (stack.pool_field("filled"), stack.pool_field("fill_after")) == (filters.LAYOUT_VERSION, None)
    stack.request_rebuild()

    assert stack.run()["count_rebuilt"] == PROXIES


@dataclass
class LeaseLoad:
    """Workers that acquire and release leases, and their observations. A proxy is `held` from its grant until its release is sent."""

    pool: Pool
    held: set[str] = field(default_factory=set)
    granted: int = 0
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_over: threading.Event = field(default_factory=threading.Event)

    def work(self, number: int) -> None:
        """Leases until the end, always holding what it got last; any error, and a proxy that is leased twice, is wrong."""
        wishes: list[dict[str, Any]] = [{}, {"https": True}, {"tags": ("a",), "source": "s1"}, {"count": 5}]
        last: list[Lease] = []
        turn = 0
        while not self.is_over.is_set():
            try:
                leases, _ = self.pool.acquire(f"w{number}", Request(ttl_seconds=60, **wishes[turn % len(wishes)]))
            except Exception as error:
                self.wrong.append(repr(error))
                return
            with self.lock:
                self.wrong += [f"{lease.proxy_id} is leased twice" for lease in leases if lease.proxy_id in self.held]
                self.held |= {lease.proxy_id for lease in leases}
                self.granted += len(leases)
                self.held -= {lease.proxy_id for lease in last}
            self.pool.release_many(f"w{number}", [lease.id for lease in last])
            last, turn = leases, turn + 1
        self.pool.release_many(f"w{number}", [lease.id for lease in last])


def test_leasing_continues_while_a_changed_layout_is_rebuilt(
    stack: RebuildStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1, I11: no 503, no refusal, no double lease, page after page until all members have the current layout."""
    monkeypatch.setattr("proxypool.leases.index.ready.PROXIES_PER_CALL", 1)
    load = LeaseLoad(stack.pool)
    pages = []
    scan_page = stack.bridge.proxies.scan_page

    def scan_slowly(**wanted: Any) -> tuple[list[ProxyRecord], str | None]:
        """A page of the table, when at least one more lease was granted since the last page."""
        seen = load.granted
        while load.granted <= seen + WORKERS and not load.wrong:
            time.sleep(0.001)
        pages.append(load.granted)
        return scan_page(**wanted)

    monkeypatch.setattr(expire, "RECORDS_PER_PAGE", 5)
    monkeypatch.setattr(type(stack.bridge.proxies), "scan_page", lambda _, **wanted: scan_slowly(**wanted))
    with ThreadPoolExecutor(WORKERS) as threads:
        workers = [threads.submit(load.work, number) for number in range(WORKERS)]
        try:
            rebuilt = stack.bridge.rebuild(time.monotonic() + 60)  # alone: a whole run drains a journal that grows
        finally:
            load.is_over.set()
        for worker in workers:
            worker.result()

    assert load.wrong == []
    assert rebuilt == PROXIES
    assert len(pages) >= PROXIES // 5
    assert pages == sorted(set(pages))
    assert stack.layouts() == {filters.LAYOUT_VERSION}
    assert len(stack.pool.acquire("ann", Request(ttl_seconds=60, count=50, region="by"))[0]) == 50
