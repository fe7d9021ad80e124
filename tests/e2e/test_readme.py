"""The README's client example, run as printed against the local stack, in an environment whose proxy settings point elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stack import ROOT, LocalStack, wait_until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(120)]

MISLEADING = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
"""Settings of a machine: a proxy that does not respond, and an exception for the host that the script requests."""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The README's only Python block, saved under the name that its first line gives."""
    block: str
    (block,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    file: Path = tmp_path_factory.mktemp("readme") / block.partition(":")[0].removeprefix("# ")
    file.write_text(block)
    return file


@pytest.fixture(scope="module")
def environment(stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The misleading settings, and the judge's certificate authority instead of certifi's."""
    authority = json.loads(Path(str(stack.running.farm)).read_text())["ca_file"]
    folder = tmp_path_factory.mktemp("authority")
    (folder / "sitecustomize.py").write_text(f"import certifi\ncertifi.where = lambda: {authority!r}\n")
    inherited = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"}
    return inherited | MISLEADING | {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize("address", ["judge_url", "judge_https_url"])
def test_the_script_of_the_readme_requests_its_target_through_the_lease_and_releases_it(
    stack: LocalStack, script: Path, environment: dict[str, str], address: str
) -> None:
    judge = json.loads(Path(str(stack.running.farm)).read_text())[address]

    def run() -> subprocess.CompletedProcess[str] | None:
        """One run; None while the leases of earlier tests hold every matching proxy."""
        command = [sys.executable, str(script), f"{judge}ip"]
        done = subprocess.run(
            command, cwd=stack.folder.parent, env=environment, capture_output=True, text=True, timeout=60
        )
        return None if "PoolEmpty" in done.stderr else done

    done = wait_until(run, 90)

    assert done.returncode == 0, done.stderr
    outcome, _, page = done.stdout.partition(" ")
    assert outcome == "ok"
    assert json.loads(page)["origin"] in {proxy["exit_ip"] for proxy in stack.farm()}
    assert stack.call("GET", "/leases")[1]["leases"] == []
