"""Sixteen workers save sessions concurrently over an unreliable connection to Redis: no update is lost silently."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from proxypool.errors import NotFound, Unavailable, VersionConflict
from proxypool.leases.redis.cache import Cache
from proxypool.leases.sessions.store import Session, Sessions

from tests.support.faults import Fault, faulty_connection
from tests.support.lease_history import CallResult
from tests.support.leases import a_pool

WORKERS, SAVES = 16, 14
OWNERS, NAMES = ("ann", "bob"), ("s1", "s2")


@dataclass(frozen=True, slots=True)
class Save:
    """One save: `mark` was put behind the marks that had been read at `version`."""

    owner: str
    name: str
    mark: str
    version: int
    result: CallResult


@dataclass(frozen=True, slots=True)
class Observation:
    """What a session held at a version."""

    owner: str
    name: str
    version: int
    marks: tuple[str, ...]


def marks_of(session: Session) -> tuple[str, ...]:
    """A session of these tests holds its saves, in their order."""
    return tuple(session.tokens["marks"].split())


@dataclass
class Worker:
    """One worker with separate connections: reads a session, adds a mark, saves it."""

    number: int
    sessions: Sessions
    saves: list[Save] = field(default_factory=list)
    seen: list[Observation] = field(default_factory=list)

    def work(self) -> None:
        """Each mark is used once, also after a failure."""
        draw = random.Random(self.number)
        for number in range(SAVES):
            owner, name = OWNERS[self.number % 2], draw.choice(NAMES)
            try:
                version, marks = self.read(owner, name)
            except Unavailable:
                continue
            mark = f"{owner}:{name}:{self.number}:{number}"
            body = {"tokens": {"marks": " ".join([*marks, mark])}}
            self.saves.append(Save(owner, name, mark, version, self.save(owner, name, body, version)))
        self.sessions.cache.close()

    def read(self, owner: str, name: str) -> tuple[int, tuple[str, ...]]:
        """The session's version and marks; 0 and none where there is no session."""
        try:
            session = self.sessions.get(owner, name)
        except NotFound:
            return 0, ()
        self.seen.append(Observation(owner, name, session.version, marks_of(session)))
        return session.version, marks_of(session)

    def save(self, owner: str, name: str, body: dict[str, dict[str, str]], version: int) -> CallResult:
        """The outcome as the worker knows it."""
        try:
            assert self.sessions.put(owner, name, content=body, version=version).version == version + 1
        except VersionConflict:
            return CallResult.FAIL
        except Unavailable:
            return CallResult.UNKNOWN
        return CallResult.OK


def lost_or_mixed_up(saves: Iterable[Save], seen: Iterable[Observation], last: Observation) -> list[str]:
    """Checks the history of one session with the final state `last`; returns the errors."""
    mine = [one for one in saves if (one.owner, one.name) == (last.owner, last.name)]
    told = {one.mark: one for one in mine}
    found = [f"{mark} is another session's, or there twice" for mark in last.marks if mark not in told]
    found += [
        f"{one.mark} was saved and is lost"
        for one in mine
        if one.result is CallResult.OK and one.mark not in last.marks
    ]
    found += [
        f"{one.mark} was refused and is there"
        for one in mine
        if one.result is CallResult.FAIL and one.mark in last.marks
    ]
    found += [
        f"{mark} stands at {place}, but was saved over {told[mark].version}"
        for place, mark in enumerate(last.marks)
        if mark in told and told[mark].version != place
    ]
    for one in seen:
        if (one.owner, one.name) == (last.owner, last.name) and one.marks != last.marks[: one.version]:
            found.append(f"version {one.version} was read as {one.marks}")
    return found


def test_sixteen_workers_with_faults_lose_no_update(valkey_url: str) -> None:
    """I15, I16, inputs 68 and 69, two owners of the same names: each acknowledged save is there, each refused one is not."""
    sessions = Sessions(a_pool(valkey_url).cache, 600, 600)
    for owner in OWNERS:
        for name in (*NAMES, "known"):  # the scripts are loaded: short commands
            sessions.put(owner, name, content={"tokens": {"marks": f"{owner}:{name}:first"}}, version=0)
            sessions.get(owner, name)
    with faulty_connection(valkey_url) as (url, happened), ThreadPoolExecutor(WORKERS) as threads:
        workers = [
            Worker(number, replace(sessions, cache=Cache(url, sessions.cache.keys))) for number in range(WORKERS)
        ]
        list(threads.map(Worker.work, workers))
    saves = [one for worker in workers for one in worker.saves]
    saves += [Save(owner, name, f"{owner}:{name}:first", 0, CallResult.OK) for owner in OWNERS for name in NAMES]
    seen = [one for worker in workers for one in worker.seen]

    for owner in OWNERS:
        for name in NAMES:
            session = sessions.get(owner, name)
            assert lost_or_mixed_up(saves, seen, Observation(owner, name, session.version, marks_of(session))) == []
            assert session.version == len(marks_of(session))
    assert set(happened) == set(Fault)
    assert set(Counter(one.result for one in saves)) == set(CallResult)
