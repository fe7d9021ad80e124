"""`proxypool jobs …`: pages by the thousand, fetched by the pool's own workers."""

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
OVER = STATES[2:]
POLL_SECONDS = 1.0

app = typer.Typer(help="Pages, fetched by the pool's own workers.", no_args_is_help=True)
Batch = Annotated[str, typer.Argument(help="What `jobs submit` printed.")]


@app.command()
def submit(
    file: Annotated[str, typer.Argument(help="A file of URLs or of NDJSON jobs, one a line; - for standard input.")],
    batch: Annotated[
        str, typer.Option(help="Its name; else a digest of the file, so that the same file is the same batch.")
    ] = "",
    session: Annotated[str, typer.Option(help="Session that all of them share.")] = "",
    transform: Annotated[str, typer.Option(help='As JSON, e.g. {"name":"html","fields":{"title":"h1"}}.')] = "",
    as_json: Json = False,
    url: Url = "",
) -> None:
    """Queue the pages of a file: print the batch's name."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        wanted = read_lines(text)
        options = {"transform": json.loads(transform)} if transform else {}
    except (OSError, ValueError) as error:
        fail(Exit.USAGE, str(error), as_json)
    common: dict[str, Any] = {"batch": batch or hashlib.sha256(text.encode()).hexdigest()[:16]}
    common |= options | ({"session_id": session} if session else {})
    wanted = [job | common for job in wanted]
    with client_errors(as_json):
        api = Api(find_url(url))
        for page in _with_bar([wanted[at : at + JOBS_PER_REQUEST] for at in range(0, len(wanted), JOBS_PER_REQUEST)]):
            api.request("POST", "/jobs", {"jobs": page})
        typer.echo(json.dumps({"batch": common["batch"], "jobs": len(wanted)}) if as_json else common["batch"])


@app.command()
def watch(batch: Batch, as_json: Json = False, url: Url = "") -> None:
    """Wait until no job of the batch waits or runs."""
    with client_errors(as_json):
        api, shown = Api(find_url(url)), 0
        found = api.request("GET", f"/batches/{path_part(batch)}")
        with typer.progressbar(length=found["jobs"], label=batch, file=sys.stderr) as bar:
            while True:
                over = sum(found["states"][state] for state in OVER)
                bar.length = found["jobs"]
                bar.update(over - shown)
                if over == found["jobs"]:
                    break
                shown = over
                time.sleep(POLL_SECONDS)
                with suppress(Unreachable):  # for once: the next look may be answered
                    found = api.request("GET", f"/batches/{path_part(batch)}")
        counts = ", ".join(f"{number} {state}" for state, number in found["states"].items() if number)
        typer.echo(json.dumps(found) if as_json else counts)


@app.command()
def results(
    batch: Batch, out: Annotated[Path, typer.Option(help="A folder: one JSON file per job.")], url: Url = ""
) -> None:
    """Write the results of a batch to a folder; what is there already is not fetched again."""
    with client_errors(as_json=False):
        api, number = Api(find_url(url)), 0
        out.mkdir(parents=True, exist_ok=True)
        for job in listed(api, batch, OVER):
            target = out / f"{job['id']}.json"
            if job["processed"] and not target.exists():
                target.write_text(json.dumps(api.request("GET", f"/jobs/{job['id']}/result")), encoding="utf-8")
                number += 1
        typer.echo(f"{number} results in {out}", err=True)


@app.command()
def replay(
    batch: Batch,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed or were blocked.")] = False,
    as_json: Json = False,
    url: Url = "",
) -> None:
    """Run the jobs of a batch again that are over; their results stay until they are replaced."""
    with client_errors(as_json):
        api = Api(find_url(url))
        again = [job["id"] for job in listed(api, batch, ("failed", "blocked") if failed else OVER)]
        for job_id in again:
            api.request("POST", f"/jobs/{job_id}/replay")
        typer.echo(json.dumps({"replayed": again}) if as_json else f"{len(again)} jobs run again")


@app.command("list")
def list_jobs(
    batch: Annotated[str, typer.Argument(help="Only of this batch.")] = "",
    state: Annotated[str, typer.Option(help="queued, running, done, failed or blocked.")] = "failed",
    as_json: Json = False,
    url: Url = "",
) -> None:
    """Show jobs in one state."""
    with client_errors(as_json):
        found = list(listed(Api(find_url(url)), batch, (state,)))
        if as_json:
            typer.echo(json.dumps({"jobs": found}))
        for job in () if as_json else found:
            typer.echo(f"{job['id']}  {job['state']:8}{(job['reason'] or ''):16}{job['url']}")


@app.command()
def show(
    job_id: str, result: Annotated[bool, typer.Option("--result", help="Its result.")] = False, url: Url = ""
) -> None:
    """Show one job, or its result."""
    with client_errors(as_json=True):
        typer.echo(
            json.dumps(
                Api(find_url(url)).request("GET", f"/jobs/{path_part(job_id)}" + ("/result" if result else "")),
                indent=1,
            )
        )


@app.command()
def allow(
    domain: Annotated[str, typer.Argument(help="With its subdomains.")],
    rate: Annotated[float, typer.Option(help="Requests a second.")] = 1.0,
    width: Annotated[int, typer.Option(help="Requests at once; 0: no bound.")] = 2,
    http: Annotated[bool, typer.Option("--http", help="By plain http, too.")] = False,
    no_robots: Annotated[str, typer.Option(help="Why robots.txt does not bind you there, for the record.")] = "",
    as_json: Json = False,
    url: Url = "",
) -> None:
    """Allow jobs to fetch from a domain (an operator's right)."""
    rules: dict[str, Any] = {"requests_per_second": rate, "concurrency": width, "allow_http": http}
    rules |= {"robots": False, "reason": no_robots} if no_robots else {}
    with client_errors(as_json):
        found = Api(find_url(url)).request("PUT", f"/domains/{path_part(domain)}", rules)
        typer.echo(json.dumps(found) if as_json else f"{found['name']}: {found['requests_per_second']:g} a second")


def read_lines(text: str) -> list[dict[str, Any]]:
    """The jobs of a file: a line that begins with { is a job as JSON, any other a URL; empty ones and # comments are skipped.

    Raises ValueError naming the line.
    """
    found: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            found.append(json.loads(line) if line.startswith("{") else {"url": line})
        except ValueError as error:
            raise ValueError(f"line {number} is neither a URL nor a JSON object") from error
    return found


def listed(api: Api, batch: str, states: Iterable[str]) -> Iterator[dict[str, Any]]:
    """All jobs (of a batch) in these states, page by page."""
    for state in states:
        after: str | None = ""
        while after is not None:
            query = {"state": state, **({"batch": batch} if batch else {}), **({"next": after} if after else {})}
            page = api.request("GET", f"/jobs?{urlencode(query)}")
            yield from page["jobs"]
            after = page["next"]


def _with_bar(pages: list[Any]) -> Iterator[Any]:
    with typer.progressbar(pages, label="submitting", file=sys.stderr) as bar:
        yield from bar
