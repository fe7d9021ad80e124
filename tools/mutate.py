"""`python tools/mutate.py [--script NAME] [--every N] [--seconds S]`: deletes each statement of the lease scripts in turn.

Some test must fail for each; those that all tests survive are printed, and stand in SURVIVORS with the reason, or are a gap.
A statement is a line that the script still loads without; what opens or closes a block goes with no line of its own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
LUA = Path("layers/core/proxypool/leases/lua")
TESTS = [
    "tests/integration/test_lease_engine.py",
    "tests/integration/test_lease_choice.py",
    "tests/integration/test_lease_outcomes.py",
    "tests/integration/test_lease_sessions.py",
    "tests/integration/test_lease_index.py",
    "tests/integration/test_lease_faults.py",
    "tests/integration/test_lease_property.py",
    "tests/integration/test_lease_machine.py",
]
SURVIVORS = {
    "math.randomseed(": "without it a fresh server draws one fixed sequence: seen only across restarts",
}
MUTANT_SECONDS = 240


def statements(text: str) -> list[int]:
    """The numbers (from 0) of lines that may be a statement of their own."""
    found = []
    for number, line in enumerate(text.splitlines()):
        code = line.partition("--")[0].strip()
        if code and not line.startswith("#!") and code not in ("end", "else", "end)", "}", "repeat"):
            found.append(number)
    return found


def survives(folder: Path) -> bool:
    """Whether all tests pass on the mutant, or it does not even load (then it is none)."""
    paths = os.pathsep.join(str(folder / part) for part in ("layers/core", "layers/client"))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *TESTS]
    try:
        done = subprocess.run(  # noqa: S603 (our own tests)
            command, cwd=folder, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, timeout=MUTANT_SECONDS
        )
    except subprocess.TimeoutExpired:  # a loop without an end is noticed, too
        return False
    return done.returncode == 0


def main() -> None:
    """Prints each survivor; exits 1 if there is one without a reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--script", help="one of the files, without .lua")
    parser.add_argument("--every", type=int, default=1, help="only each n-th statement")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after that time")
    wanted = parser.parse_args()
    end, tried, gaps = time.monotonic() + wanted.seconds, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("layers", "functions", "tests", "pyproject.toml", "template.yaml"):
            source = ROOT / part
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / part)
        for path in sorted((folder / LUA).glob(f"{wanted.script or '*'}.lua")):
            text = path.read_text()
            for number in statements(text)[:: wanted.every]:
                if time.monotonic() > end:
                    break
                lines = text.splitlines(keepends=True)
                path.write_text("".join(lines[:number] + lines[number + 1 :]))
                tried += 1
                if survives(folder):
                    line = lines[number].strip()
                    reason = next((why for start, why in SURVIVORS.items() if line.startswith(start)), "")
                    gaps += not reason
                    print(f"{path.name}:{number + 1}: {line}  -- {reason or 'NO TEST FAILS'}", flush=True)
            path.write_text(text)
    print(f"{tried} mutants, {gaps} without a failing test")
    sys.exit(bool(gaps))


if __name__ == "__main__":
    main()
