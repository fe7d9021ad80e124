"""`python -m tools.mutate [--script NAME]`: mutation tests of the lease scripts, by deleting one statement at a time.

A statement begins on a line and has the smallest number of lines without which the script still loads; of a line with several
statements, each is a mutant, too. Mutants that no test kills are printed; a survivor without a reason in SURVIVORS is a gap.
Two processes, each with its own servers, collect the tests once; each mutant runs in a fork, beginning with the tests that killed
earlier mutants of its script.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis
from hypothesis import Phase, settings
from proxypool.leases.redis import scripts

from tests.support import servers

LUA = scripts.LUA_FOLDER
SOURCE = scripts.source  # the tests wrap it to move the clock of the scripts
SESSION_TESTS = ["tests/integration/leases/test_sessions.py", "tests/integration/leases/test_session_history.py"]
PARTS = "engine traces outcomes index layout sessions choice functions property machine history faults"
POOL_TESTS = [f"tests/integration/leases/test_lease_{part}.py" for part in PARTS.split()]
DESELECTED = "not 503 and not tls and not imports_no_heavy and not wrong_field"  # slow, and they run no script
SURVIVORS = {  # "script: beginning of the line" -> why no test can fail
    "choose: from = from + width": "speed: otherwise the next draw repeats the same candidates",
    "grant: g.times = nil": "speed: otherwise the writes for a proxy's first slot are repeated for each slot",
    "head: if made then return made end": "speed: otherwise the functions are created at each use",
    "head: if not due[1] then return 0, 0 end": "speed: otherwise the functions are created when nothing has ended",
    "head: call('HSET', BREAKERS, target, BREAKER.half_open)": "an open breaker whose time is up counts as half-open: the write is for readers of the key",
}
PROCESSES = 2
STATEMENT_LINES = 60
SECONDS = {"test": 20, "mutant": 240}  # time limits: a mutant may loop forever
TIMED_OUT = re.compile("Unavailable|Timeout")
NO_STATEMENT = ("", "end", "else", "end)", "}", "repeat")
START = r"(?:call|return|finish|place|r\.\w+)\b"  # of a statement that shares its line
INNER = re.compile(rf"(?:\bthen|\belse|\bdo|\)) +({START}.*?)(?= +(?:{START}|else\b|end\b)|$)")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A script without one statement; `code` is the first line of the statement."""

    script: str
    line: int
    code: str
    statement: str
    text: str

    def __str__(self) -> str:
        return f"{self.script}.lua:{self.line}: {self.statement[:140]}"

    @property
    def reason(self) -> str:
        """The reason why it survives, or ""."""
        return next((why for start, why in SURVIVORS.items() if f"{self.script}: {self.code}".startswith(start)), "")


def mutants(script: str, server: redis.Redis) -> Iterator[Mutant]:
    """All mutants of one script that the server can load."""
    lines = (LUA / f"{script}.lua").read_text().splitlines(keepends=True)

    def loads(text: str) -> bool:
        return bool(server.eval("return loadstring(ARGV[1]) and 1 or 0", 0, text.replace("#!", "--", 1)))

    for at, line in enumerate(lines):
        if line.partition("--")[0].strip(" ,\n") in NO_STATEMENT or line.startswith("#!"):
            continue
        outer = (
            ("".join(lines[at:end]), "".join(lines[:at] + lines[end:])) for end in range(at + 1, at + STATEMENT_LINES)
        )
        found = [next((one for one in outer if loads(one[1])), ("", ""))]
        for inner in INNER.finditer(line):
            rest = [*lines[:at], line[: inner.start(1)], line[inner.end(1) :], *lines[at + 1 :]]
            found.append((inner[1], "".join(rest)))
        for statement, text in found:
            if statement and loads(text):
                yield Mutant(script, at + 1, line.strip(), " ".join(statement.split()), text)


@dataclass(slots=True, eq=False)
class Trial:
    """A pytest plugin: instead of running the tests once, it runs them for each mutant until one fails."""

    mutants: Sequence[Mutant]
    verbose: bool
    out: int = field(default_factory=lambda: os.dup(1))  # pytest captures the original
    survivors: list[Mutant] = field(default_factory=list)
    is_baseline_green: bool = False  # all tests pass without a mutation
    kills: Counter[tuple[str, str]] = field(default_factory=Counter)  # script, test
    url: str = ""
    why: str = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records the reason of a failure."""
        if report.failed:
            self.why = report.longreprtext

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        """Records the URL of the server."""
        value = yield
        if fixturedef.argname == "valkey_url":
            self.url = str(value)
        return value

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs the tests without a mutation, which also starts the servers; then for each mutant."""
        failed = self._first_failure(session, session.items)
        self.is_baseline_green = not failed
        for mutant in self.mutants if self.is_baseline_green else ():
            started = time.monotonic()
            failed = self._killer(session, mutant)
            seconds = time.monotonic() - started
            self.kills[mutant.script, failed] += seconds < SECONDS["test"] / 4
            if not failed:
                self.survivors.append(mutant)
            if self.verbose or not (failed or mutant.reason):
                self._print(f"{seconds:5.1f} s  {mutant}  -- {failed or mutant.reason or 'NO TEST FAILS'}")
            self._reset(session)
        if not self.is_baseline_green:
            self._print(f"without a mutation: {failed} fails\n{self.why}")
        return True

    def _print(self, text: str) -> None:
        os.write(self.out, f"{text}\n".encode())

    def _first_failure(self, session: pytest.Session, items: Sequence[pytest.Item]) -> str:
        """The first test that fails; one that timed out is repeated once, since the machine may be busy."""
        following = [*items[1:], items[0]]  # never None, which would stop the servers
        for item, next_one in zip(items, following, strict=True):
            for _ in range(2):
                session.testsfailed = 0
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_one)
                if not session.testsfailed or not TIMED_OUT.search(self.why):
                    break
            if session.testsfailed:
                return item.nodeid
        return ""

    def _killer(self, session: pytest.Session, mutant: Mutant) -> str:
        """The id of the test that fails for a mutant, run in a child process; "" if none does."""
        wanted = SESSION_TESTS if mutant.script.startswith("session_") else POOL_TESTS
        items = [item for item in session.items if item.nodeid.partition("::")[0] in wanted]
        items.sort(key=lambda item: -self.kills[mutant.script, item.nodeid])
        reader, writer = os.pipe()
        if child := os.fork():
            os.close(writer)
            with os.fdopen(reader) as answer:
                failed = answer.read()
            return failed if os.waitpid(child, 0)[1] == 0 else "the time limit"
        threading.Timer(SECONDS["mutant"], os._exit, (1,)).start()
        try:
            with changed(mutant):
                os.write(writer, self._first_failure(session, items).encode())
            os._exit(0)
        finally:
            os._exit(1)

    def _reset(self, session: pytest.Session) -> None:
        """Empties the server; restarts it if a mutant still runs there."""
        try:
            with redis.Redis.from_url(self.url, socket_timeout=2) as server:
                server.flushall()
                server.script_flush()
        except redis.RedisError:
            for following in (None, session.items[-1]):
                session.items[0].config.hook.pytest_runtest_protocol(item=session.items[0], nextitem=following)
            session.testsfailed = 0


@contextmanager
def changed(mutant: Mutant) -> Iterator[None]:
    """Makes this process run the mutant from now on."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(LUA, folder / "lua")
        (folder / "lua" / f"{mutant.script}.lua").write_text(mutant.text)
        scripts.LUA_FOLDER = folder / "lua"
        SOURCE.cache_clear()
        yield


def run_trial(some: Sequence[Mutant], verbose: bool) -> tuple[bool, list[Mutant]]:
    """True if the tests pass without a mutation; and the surviving mutants."""
    settings.register_profile("mutate", derandomize=True, database=None, phases=[Phase.generate], deadline=None)
    settings.load_profile("mutate")
    trial = Trial(some, verbose)
    options = (
        f"--assert=plain -o addopts=--import-mode=importlib -o timeout={SECONDS['test']} -p no:xdist -p no:terminal"
    )
    pytest.main(
        [*options.split(), "-p", "no:cacheprovider", "-k", DESELECTED, *POOL_TESTS, *SESSION_TESTS], plugins=[trial]
    )
    return trial.is_baseline_green, trial.survivors


def main() -> None:
    """Exits with 1 if a mutant survives without a reason, or if a test fails without a mutation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--script", help="one of the files, without .lua")
    parser.add_argument("--verbose", action="store_true", help="print the test that kills each mutant")
    wanted = parser.parse_args()
    with servers.valkey_cluster() as url, redis.Redis.from_url(url) as server:
        names = sorted(path.stem for path in LUA.glob(f"{wanted.script or '*'}.lua"))
        found = [mutant for name in names for mutant in mutants(name, server)]
    shares = [found[number::PROCESSES] for number in range(PROCESSES)]
    with ProcessPoolExecutor(PROCESSES) as pool:
        done = list(pool.map(run_trial, shares, [wanted.verbose] * PROCESSES))
    survivors = [mutant for _, some in done for mutant in some]
    gaps = sum(not mutant.reason for mutant in survivors)
    print(f"{len(found)} mutants, {len(survivors)} survive, {gaps} of them without a reason")
    sys.exit(bool(gaps) or not all(is_green for is_green, _ in done))


if __name__ == "__main__":
    main()
