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
"""In the order in which they run. Each is a module of this folder with `measure() -> list[Row]`: to add one, a file and a line."""

RESULT = Path("build/bench.json")


def main() -> None:
    """Runs all, or one; exits 0 whatever holds: a missed target is a finding, told in the table."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", choices=BENCHES, metavar="NAME", help=", ".join(BENCHES))
    only = parser.parse_args().only
    rows = [row for name in BENCHES if only in (None, name) for row in _measured(name)]
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps([row.as_json() for row in rows], indent=1))
    print(table(rows))


def _measured(name: str) -> list[Row]:
    """The rows of one bench; one that breaks is a row without a value, and the others still run."""
    started = time.monotonic()
    try:
        rows: list[Row] = import_module(f"tests.bench.{name}").measure()
    except Exception as error:  # whatever it is, the reader wants the other rows
        rows = [Row(name=name, value=None, unit="", reason=f"{type(error).__name__}: {error}"[:300])]
    print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    main()
