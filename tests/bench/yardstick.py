"""The reference for the worker of jobs: crawlee-python's HttpCrawler with the same site and proxies, in its own environment.

crawlee is not in the lock files: the first run installs it to build/crawlee, for the Python that runs the benchmark.
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
MAX_SECONDS = 600


def crawl(site_url: str, proxy_urls: Sequence[str], *, pages: int, at_once: int, client: str) -> dict[str, Any]:
    """The figures of crawler.py: `pages` stored, `cpu_seconds`, `wall_seconds`. Raises CalledProcessError, TimeoutExpired."""
    order = {"site": site_url, "proxies": list(proxy_urls), "pages": pages, "at_once": at_once, "client": client}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with TemporaryDirectory() as folder:  # of crawlee's queue and results
        done = subprocess.run(
            [str(_python().absolute()), str(Path(__file__).with_name("crawler.py"))],
            input=json.dumps(order), cwd=folder, env=environment,
            stdout=subprocess.PIPE, text=True, check=True, timeout=MAX_SECONDS,
        )  # fmt: skip
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _python() -> Path:
    """The environment's Python; creates the environment if it has another version of crawlee."""
    mark, python = PLACE / f"{VERSION}.installed", PLACE / "bin" / "python"
    if not mark.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(PLACE)], check=True, timeout=MAX_SECONDS)
        install = [str(python), "-m", "pip", "install", "--quiet", f"crawlee[httpx]=={VERSION}"]
        subprocess.run(install, check=True, timeout=MAX_SECONDS)
        mark.touch()
    return python
