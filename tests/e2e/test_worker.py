"""Jobs on a local stack: the example with a login, a hundred pages, an exit that fails and a replay; the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from tests.support.servers import ROOT
from tests.support.stack import LocalStack

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(300)]


@pytest.fixture
def site() -> Iterator[str]:
    """examples/site.py on a free port."""
    child = subprocess.Popen([sys.executable, str(ROOT / "examples/site.py"), "0"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    yield child.stdout.readline().split()[3].rstrip("/")
    child.terminate()
    child.wait(10)
    child.stdout.close()


def test_a_logged_in_session_stores_every_page_once(stack: LocalStack, site: str) -> None:
    """I12, I15 and case 22: one cookie; a second exit after the first one failed; three failed pages are replayed; no other owner
    can read the session.
    """
    script = [sys.executable, str(ROOT / "examples/logged_in.py"), "--site", site, "--url", stack.running.api_url]

    done = subprocess.run(script, capture_output=True, text=True, timeout=280, check=False)

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["results"], report["replayed"], report["users"]) == (100, 3, {"ann": 100})
    assert len(report["exits"]) == 2
    assert report["readable by another owner"] is False
    requests = httpx.get(f"{site}/requests", trust_env=False).json()
    pages = [one["path"] for one in requests if one["path"].startswith("/page/") and one["path"] not in FAILING]
    assert sorted(pages) == sorted(set(pages))  # each page once
    assert {one["user"] for one in requests if one["path"].startswith("/page/")} == {"ann"}
    exits = [one["exit"] for one in requests if one["path"].startswith("/page/")]
    assert len(set(exits)) == 2
    assert stack.events.received("job.completed")


FAILING = {"/page/97", "/page/98", "/page/99"}


def test_jobs_by_the_command_line(stack: LocalStack, site: str) -> None:
    """Submit, watch, list: pages that require a login are blocked, with the reason."""
    file = stack.folder / "urls.txt"
    file.write_text(f"# pages\n{site}/page/1\n" + json.dumps({"url": f"{site}/page/2", "max_attempts": 1}) + "\n")

    batch = stack.command("jobs", "submit", str(file))
    watched = stack.command("jobs", "watch", batch["batch"])

    assert (batch["jobs"], watched["progress"], watched["states"]["blocked"]) == (2, 1.0, 2)
    listed = stack.command("jobs", "list", batch["batch"], "--state", "blocked")["jobs"]
    assert {job["reason"] for job in listed} == {"http_401"}
