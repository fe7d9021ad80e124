"""Scrapes a site with a login: one login, a hundred pages fetched by the pool's workers, and an exit that fails.

    make up                                   (in one terminal)
    .venv/bin/python examples/site.py         (in another)
    .venv/bin/python examples/logged_in.py    (in a third)

Every page is a job, whose result is stored exactly once. All jobs share the session `ann-1`: its cookie, and one exit as long as
that works.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import httpx
from proxypool_client import ApiError, Unreachable
from proxypool_client.api import Api, find_url

PAGES = 100
SESSION = "ann-1"
SECONDS = 240


def main() -> None:
    """Runs the example and prints its report as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", default="http://127.0.0.1:8099", help="URL of the site")
    parser.add_argument("--url", default="", help="URL of the pool's API; default: the local stack")
    options = parser.parse_args()
    pool = Api(find_url(options.url))
    print(json.dumps(scrape(pool, options.site), indent=1))
    pool.close()


def scrape(pool: Api, site: str) -> dict[str, Any]:
    """Logs in, submits the pages, removes the exit after half of them, replays failed jobs; returns the report."""
    host = site.rpartition(":")[0].partition("://")[2]
    rules = {"requests_per_second": 200, "concurrency": 20, "allow_http": True}
    pool.request("PUT", f"/domains/{quote(host)}", rules)  # our own site: no rate limit needed

    common = {"session_id": SESSION, "allow_plaintext_secrets": True}  # plain http, on loopback only
    form = {
        "headers": {"Content-Type": "application/x-www-form-urlencoded"},
        "body": "user=ann&password=x",
        "method": "POST",
    }
    batch = f"shop-{int(time.time())}"
    pool.request("POST", "/jobs", {"url": f"{site}/login", "batch": f"{batch}-login", **form, **common})
    wait(pool, f"{batch}-login")

    transform = {"name": "html", "fields": {"title": "h1", "user": ".user"}}
    jobs = [
        {"url": f"{site}/page/{number}", "batch": batch, "transform": transform, **common} for number in range(PAGES)
    ]
    ids = [job["id"] for job in pool.request("POST", "/jobs", {"jobs": jobs[: PAGES // 2]})["jobs"]]
    wait(pool, batch)
    first = pool.request("GET", f"/jobs/{ids[0]}/result")
    pool.request("DELETE", f"/proxies/{first['proxy_id']}")  # the exit fails

    ids += [job["id"] for job in pool.request("POST", "/jobs", {"jobs": jobs[PAGES // 2 :]})["jobs"]]
    states = wait(pool, batch)["states"]

    failed = pool.request("GET", f"/jobs?state=failed&batch={batch}")["jobs"]
    httpx.post(f"{site}/repair", trust_env=False)
    for job in failed:
        pool.request("POST", f"/jobs/{job['id']}/replay")
    wait(pool, batch)

    results = [pool.request("GET", f"/jobs/{job_id}/result") for job_id in ids]
    return {
        "before the replay": states,
        "replayed": len(failed),
        "results": len({result["url"] for result in results}),
        "users": dict(Counter(result["data"]["user"] for result in results)),
        "exits": dict(Counter(result["exit_ip"] for result in results)),
        "readable by another owner": can_read(pool, "bob"),
    }


def wait(pool: Api, batch: str) -> dict[str, Any]:
    """The batch, once all its jobs have ended; raises TimeoutError."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with suppress(Unreachable):  # a busy machine: poll again
            progress: dict[str, Any] = pool.request("GET", f"/batches/{batch}")
            if progress["progress"] == 1:
                return progress
        time.sleep(0.5)
    raise TimeoutError(f"batch {batch} is not done")


def can_read(pool: Api, owner: str) -> bool:
    """True if another owner can read the session (on a local stack, a header sets the owner)."""
    try:
        pool.request("GET", f"/sessions/{SESSION}", None, {"x-proxypool-owner": owner})
    except ApiError:
        return False
    return True


if __name__ == "__main__":
    main()
