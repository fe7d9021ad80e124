"""The yardstick of the ETL worker: crawlee-python's HttpCrawler over the same site and proxies, in an environment of its own.

crawlee is in no lock file of ours: the first run installs it to build/crawlee, for the Python that runs the bench.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

VERSION = "1.11.0"
PLACE = Path("build/crawlee")
MOST_SECONDS = 600


def crawl(site_url: str, proxy_urls: Sequence[str], *, pages: int, at_once: int, client: str) -> dict[str, Any]:
    """What crawler.py found: `pages` stored, `cpu_seconds`, `wall_seconds`. Raises CalledProcessError, TimeoutExpired."""
    order = {"site": site_url, "proxies": list(proxy_urls), "pages": pages, "at_once": at_once, "client": client}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with TemporaryDirectory() as folder:  # where crawlee keeps its queue and its results
        done = subprocess.run(
            [str(_python().absolute()), str(Path(__file__).with_name("crawler.py"))],
            input=json.dumps(order), cwd=folder, env=environment,
            stdout=subprocess.PIPE, text=True, check=True, timeout=MOST_SECONDS,
        )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _python() -> Path:
    """The environment's Python; the environment is made where there is none of this version."""
    mark, python = PLACE / f"{VERSION}.installed", PLACE / "bin" / "python"
    if not mark.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(PLACE)], check=True, timeout=MOST_SECONDS)
        asked = [str(python), "-m", "pip", "install", "--quiet", f"crawlee[httpx]=={VERSION}"]
        subprocess.run(asked, check=True, timeout=MOST_SECONDS)
        mark.touch()
    return python
