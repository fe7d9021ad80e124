"""Restored snapshots of a Lambda environment must not share ids and connections (input 87)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import ROOT

NOT_FOR_IDS = {
    "aws/dynamodb.py": "how long to wait before a retry",
    "jobs/fetch/gate.py": "which slot of a domain to try first",
    "local/farm/kinds.py": "the demo farm",
}
"""Uses of `random`, whose state is part of a snapshot: not for ids."""

IMPORTS_ALL = """
import importlib.util, pathlib, socket, sys
def refused(*args, **named):
    raise AssertionError("a connection at import")
socket.socket.connect = socket.create_connection = refused
for number, path in enumerate(sorted(pathlib.Path("functions").glob("*/app.py"))):
    spec = importlib.util.spec_from_file_location(f"app_{number}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
from proxypool import aws
assert aws.client.cache_info().currsize == 0, "a client of AWS at import"
print(number + 1)
"""


def test_ids_come_from_the_operating_system() -> None:
    """Input 87."""
    core = ROOT / "layers/core/proxypool"
    users = {str(path.relative_to(core)) for path in core.rglob("*.py") if _imports(path) & {"random", "uuid"}}

    assert users == set(NOT_FOR_IDS)


@pytest.mark.enable_socket
def test_importing_a_function_creates_no_connection_and_no_client() -> None:
    """Input 87: they are created after a restore, at the first call; environment variables may be missing until then."""
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS_ALL], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(list((ROOT / "functions").glob("*/app.py")))


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
