"""Missing prerequisites on a new user's machine: each is reported in one clear line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRECHECK = f"exec(open({str(ROOT / 'tools' / 'precheck.py')!r}).read())"


def precheck(before: str) -> subprocess.CompletedProcess[str]:
    """The check, in a Python that has run `before`."""
    return subprocess.run([sys.executable, "-c", f"import sys; {before}; {PRECHECK}"], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("sys.version_info = (3, 9, 2)", "Python 3.11 or newer is needed, this is 3.9.2"),
        ("sys.modules['venv'] = None", "python3-venv"),
        ("sys.modules['ensurepip'] = None", "python3-venv"),  # as Debian ships it
    ],
)
def test_a_missing_prerequisite_is_an_error_of_one_line(before: str, expected: str) -> None:
    done = precheck(before)

    assert done.returncode == 1
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_suitable_python_prints_nothing() -> None:
    done = precheck("pass")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with the files that `make .venv` reads."""
    for name in ("Makefile", "requirements.txt", "pyproject.toml", "tools/precheck.py", "layers/client/pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "-C", str(folder), *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )


def test_an_unreachable_package_index_is_an_error_of_one_line(copy: Path) -> None:
    offline = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_NO_CACHE_DIR": "1",
               "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": ""}  # fmt: skip

    done = make(copy, ".venv", f"PYTHON={sys.executable}", **offline)

    lines = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert done.returncode != 0
    assert "about 300 MB" in done.stdout  # printed before the download
    assert [line.split(":")[0] for line in lines] == ["The packages could not be installed"]
    assert not (copy / ".venv" / ".done").exists()


def test_a_missing_python_is_named(copy: Path) -> None:
    done = make(copy, ".venv", "PYTHON=python9.9")

    assert "python9.9 not found" in done.stderr


def test_make_without_a_target_lists_the_targets() -> None:
    listed = make(ROOT).stdout

    for target in ("up", "down", "test", "check", "bench", "build"):
        assert f"\n{target}\t" in listed
