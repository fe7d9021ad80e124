"""`python -m tests.bench [--only NAME]`: measures, prints a table and writes build/bench.json."""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module
from pathlib import Path

from tests.bench.row import Row, table

BENCHES = (
    "startup",
    "up",
    "leases",
    "checks",
    "parser",
    "scrape",
    "leasable",
    "jobs",
    "suite",
)
"""In the order in which they run. Each is a module of this folder with `measure() -> list[Row]`."""

RESULT = Path("build/bench.json")


def main() -> None:
    """Runs all benchmarks, or one; exits with 0 also if targets are missed, which the table shows."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", choices=BENCHES, metavar="NAME", help=", ".join(BENCHES))
    only = parser.parse_args().only
    rows = [row for name in BENCHES if only in (None, name) for row in _measured(name)]
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps([row.as_json() for row in rows], indent=1))
    print(table(rows))


def _measured(name: str) -> list[Row]:
    """The rows of one benchmark; one that raises is a row without a value."""
    started = time.monotonic()
    try:
        rows: list[Row] = import_module(f"tests.bench.{name}").measure()
    except Exception as error:  # the other benchmarks still run
        rows = [Row(name=name, value=None, unit="", reason=f"{type(error).__name__}: {error}"[:300])]
    print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    main()
