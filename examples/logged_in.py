"""Scrape a site with a logged-in session: log in once, a hundred pages by the pool's workers, one exit that dies meanwhile.

    make up                                   (in one terminal)
    .venv/bin/python examples/site.py         (in another)
    .venv/bin/python examples/logged_in.py    (in a third)

Every page is a job: stored once, whatever is delivered twice. All of them share the session `ann-1`: its cookie, and one exit, until
that exit goes.
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
    """Runs the steps and prints what came of them."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--site", default="http://127.0.0.1:8099", help="where the site is")
    options.add_argument("--url", default="", help="the pool's API; else the one that runs here")
    asked = options.parse_args()
    pool = Api(find_url(asked.url))
    found = scrape(pool, asked.site)
    print(json.dumps(found, indent=1))
    pool.close()


def scrape(pool: Api, site: str) -> dict[str, Any]:
    """The whole story; the figures at its end."""
    host = site.rpartition(":")[0].partition("://")[2]
    rules = {"requests_per_second": 200, "concurrency": 20, "allow_http": True}
    pool.request("PUT", f"/domains/{quote(host)}", rules)  # our own site: as fast as it can

    common = {"session_id": SESSION, "allow_plaintext_secrets": True}  # plain http, on this machine only
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
    pool.request("DELETE", f"/proxies/{first['proxy_id']}")  # the exit dies

    ids += [job["id"] for job in pool.request("POST", "/jobs", {"jobs": jobs[PAGES // 2 :]})["jobs"]]
    states = wait(pool, batch)["states"]

    failed = pool.request("GET", f"/jobs?state=failed&batch={batch}")["jobs"]
    httpx.post(f"{site}/mend", trust_env=False)
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
        "another owner sees the session": sees(pool, "bob"),
    }


def wait(pool: Api, batch: str) -> dict[str, Any]:
    """The batch, when none of its jobs waits or runs."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with suppress(Unreachable):  # a busy laptop: ask again
            found: dict[str, Any] = pool.request("GET", f"/batches/{batch}")
            if found["progress"] == 1:
                return found
        time.sleep(0.5)
    raise TimeoutError(f"batch {batch} is not done")


def sees(pool: Api, owner: str) -> bool:
    """Whether somebody else's session of that name is there (on a local stack a header says who asks)."""
    try:
        pool.request("GET", f"/sessions/{SESSION}", None, {"x-proxypool-owner": owner})
    except ApiError:
        return False
    return True


if __name__ == "__main__":
    main()
