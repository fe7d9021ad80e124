"""`python -m tests.bench [--only NAME]`: measures, prints a table and writes build/bench.json."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from tests.bench import checks, parser, startup
from tests.bench.row import Row, table

BENCHES: dict[str, Callable[[], list[Row]]] = {
    "lease_import": startup.lease_import,
    "checks": checks.measure,
    "parser": parser.measure,
    "up": startup.up,
    "suite": startup.suite,
}
RESULT = Path("build/bench.json")


def main() -> None:
    """Runs all, or one; exits 0 whatever holds: a missed target is a finding, told in the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", choices=BENCHES)
    only = arguments.parse_args().only
    rows = [row for name, bench in BENCHES.items() if only in (None, name) for row in bench()]
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps([row.as_json() for row in rows], indent=1))
    print(table(rows))


if __name__ == "__main__":
    main()
