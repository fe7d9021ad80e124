"""`proxypool jobs …`: pages fetched by the pool's workers."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from proxypool_client.api import Api, find_url
from proxypool_client.cli.output import Exit, client_errors, fail
from proxypool_client.cli.request import Json, Url, path_part
from proxypool_client.errors import Unreachable

JOBS_PER_REQUEST = 100
STATES = ("queued", "running", "done", "failed", "blocked")
FINAL_STATES = STATES[2:]
POLL_SECONDS = 1.0

app = typer.Typer(help="Pages fetched by the pool's workers.", no_args_is_help=True)
Batch = Annotated[str, typer.Argument(help="Name of the batch, as printed by `jobs submit`.")]


@app.command()
def submit(
    file: Annotated[str, typer.Argument(help="A file of URLs or of JSON jobs, one per line; - for standard input.")],
    batch: Annotated[str, typer.Option(help="Name of the batch; default: a digest of the file.")] = "",
    session: Annotated[str, typer.Option(help="Session shared by all jobs.")] = "",
    transform: Annotated[str, typer.Option(help='As JSON, e.g. {"name":"html","fields":{"title":"h1"}}.')] = "",
    as_json: Json = False,
    url: Url = "",
) -> None:
    """Submit the jobs of a file and print the batch's name."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        jobs = read_lines(text)
        options = {"transform": json.loads(transform)} if transform else {}
    except (OSError, ValueError) as error:
        fail(Exit.USAGE, str(error), as_json)
    common: dict[str, Any] = {"batch": batch or hashlib.sha256(text.encode()).hexdigest()[:16]}
    common |= options | ({"session_id": session} if session else {})
    jobs = [job | common for job in jobs]
    with client_errors(as_json):
        api = Api(find_url(url))
        for part in _with_progress([jobs[at : at + JOBS_PER_REQUEST] for at in range(0, len(jobs), JOBS_PER_REQUEST)]):
            api.request("POST", "/jobs", {"jobs": part})
        typer.echo(json.dumps({"batch": common["batch"], "jobs": len(jobs)}) if as_json else common["batch"])


@app.command()
def watch(batch: Batch, as_json: Json = False, url: Url = "") -> None:
    """Wait until all jobs of a batch are done, failed or blocked."""
    with client_errors(as_json):
        api, shown = Api(find_url(url)), 0
        progress = api.request("GET", f"/batches/{path_part(batch)}")
        with typer.progressbar(length=progress["jobs"], label=batch, file=sys.stderr) as bar:
            while True:
                ended = sum(progress["states"][state] for state in FINAL_STATES)
                bar.length = progress["jobs"]
                bar.update(ended - shown)
                if ended == progress["jobs"]:
                    break
                shown = ended
                time.sleep(POLL_SECONDS)
                with suppress(Unreachable):  # the next poll may succeed
                    progress = api.request("GET", f"/batches/{path_part(batch)}")
        counts = ", ".join(f"{number} {state}" for state, number in progress["states"].items() if number)
        typer.echo(json.dumps(progress) if as_json else counts)


@app.command()
def results(
    batch: Batch, out: Annotated[Path, typer.Option(help="Output folder: one JSON file per job.")], url: Url = ""
) -> None:
    """Write the results of a batch to a folder; existing files are kept."""
    with client_errors(as_json=False):
        api, number = Api(find_url(url)), 0
        out.mkdir(parents=True, exist_ok=True)
        for job in list_all(api, batch, FINAL_STATES):
            target = out / f"{job['id']}.json"
            if job["processed"] and not target.exists():
                target.write_text(json.dumps(api.request("GET", f"/jobs/{job['id']}/result")), encoding="utf-8")
                number += 1
        typer.echo(f"{number} results in {out}", err=True)


@app.command()
def replay(
    batch: Batch,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed and blocked jobs.")] = False,
    as_json: Json = False,
    url: Url = "",
) -> None:
    """Run the ended jobs of a batch again; results are kept until they are replaced."""
    with client_errors(as_json):
        api = Api(find_url(url))
        replayed = [job["id"] for job in list_all(api, batch, ("failed", "blocked") if failed else FINAL_STATES)]
        for job_id in replayed:
            api.request("POST", f"/jobs/{job_id}/replay")
        typer.echo(json.dumps({"replayed": replayed}) if as_json else f"{len(replayed)} jobs replayed")


@app.command("list")
def list_jobs(
    batch: Annotated[str, typer.Argument(help="Only jobs of this batch.")] = "",
    state: Annotated[str, typer.Option(help="queued, running, done, failed or blocked.")] = "failed",
    as_json: Json = False,
    url: Url = "",
) -> None:
    """List the jobs in one state."""
    with client_errors(as_json):
        jobs = list(list_all(Api(find_url(url)), batch, (state,)))
        if as_json:
            typer.echo(json.dumps({"jobs": jobs}))
        for job in () if as_json else jobs:
            typer.echo(f"{job['id']}  {job['state']:8}{(job['reason'] or ''):16}{job['url']}")


@app.command()
def show(
    job_id: str,
    result: Annotated[bool, typer.Option("--result", help="Show the job's result instead.")] = False,
    url: Url = "",
) -> None:
    """Show a job."""
    with client_errors(as_json=True):
        typer.echo(
            json.dumps(
                Api(find_url(url)).request("GET", f"/jobs/{path_part(job_id)}" + ("/result" if result else "")),
                indent=1,
            )
        )


@app.command()
def allow(
    domain: Annotated[str, typer.Argument(help="A domain; includes its subdomains.")],
    rate: Annotated[float, typer.Option(help="Maximum requests per second.")] = 1.0,
    width: Annotated[int, typer.Option(help="Maximum concurrent requests; 0: no limit.")] = 2,
    http: Annotated[bool, typer.Option("--http", help="Also allow plain http.")] = False,
    no_robots: Annotated[str, typer.Option(help="Ignore robots.txt, for this reason; the results record it.")] = "",
    as_json: Json = False,
    url: Url = "",
) -> None:
    """Allow jobs to fetch from a domain (operators only)."""
    rules: dict[str, Any] = {"requests_per_second": rate, "concurrency": width, "allow_http": http}
    rules |= {"robots": False, "reason": no_robots} if no_robots else {}
    with client_errors(as_json):
        stored = Api(find_url(url)).request("PUT", f"/domains/{path_part(domain)}", rules)
        rate_text = f"{stored['requests_per_second']:g} requests per second"
        typer.echo(json.dumps(stored) if as_json else f"{stored['name']}: {rate_text}")


def read_lines(text: str) -> list[dict[str, Any]]:
    """The jobs of a file: a line that begins with { is a JSON object, any other a URL; empty lines and # comments are skipped.

    Raises ValueError with the number of the invalid line.
    """
    jobs: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            jobs.append(json.loads(line) if line.startswith("{") else {"url": line})
        except ValueError as error:
            raise ValueError(f"line {number} is neither a URL nor a JSON object") from error
    return jobs


def list_all(api: Api, batch: str, states: Iterable[str]) -> Iterator[dict[str, Any]]:
    """All jobs in these states, of one batch or ("") of all; requests page by page."""
    for state in states:
        token: str | None = ""
        while token is not None:
            query = {"state": state, **({"batch": batch} if batch else {}), **({"next": token} if token else {})}
            page = api.request("GET", f"/jobs?{urlencode(query)}")
            yield from page["jobs"]
            token = page["next"]


def _with_progress(parts: list[Any]) -> Iterator[Any]:
    with typer.progressbar(parts, label="submitting", file=sys.stderr) as bar:
        yield from bar
