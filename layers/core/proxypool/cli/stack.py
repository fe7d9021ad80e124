"""Commands that need AWS credentials besides the API: the ledger and the dead-letter queues."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from proxypool_client.cli.output import Exit, client_errors, fail, show, table
from proxypool_client.cli.request import Json

LIST_LIMIT = 100  # messages of each queue
DATE_FORMAT = "%Y-%m-%d"

Stack = Annotated[
    str,
    typer.Option(envvar="PROXYPOOL_STACK", help="Name of a deployed stack; default: the local stack of this folder."),
]
Region = Annotated[str, typer.Option(help="AWS region of the deployed stack; default: AWS_REGION.")]

stack_app = typer.Typer()
dlq = typer.Typer(help="Dead-letter queues: messages that failed permanently.", no_args_is_help=True)
stack_app.add_typer(dlq, name="dlq")


@stack_app.command("export")
def export_ledger(
    first: Annotated[
        datetime | None, typer.Option("--from", formats=[DATE_FORMAT], help="First day (UTC); default: that of the oldest record.")
    ] = None,
    last: Annotated[datetime | None, typer.Option("--to", formats=[DATE_FORMAT], help="Last day (UTC); default: today.")] = None,
    owner: Annotated[str, typer.Option(help="Only leases of this owner.")] = "",
    out: Annotated[Path | None, typer.Option(help="File to write; default: stdout.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV instead of JSON Lines.")] = False,
    stack: Stack = "", region: Region = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Export the lease ledger.

    A record has owner, proxy, target, times and outcome of a lease. Reads the whole table.
    """
    from proxypool import clock
    from proxypool.cli import stack_access
    from proxypool.leases.ledger import export
    from proxypool.leases.ledger.table import Ledger

    start = first.replace(tzinfo=UTC) if first else clock.from_epoch(0)
    end = last.replace(tzinfo=UTC) + timedelta(days=1) if last else clock.now()
    with ExitStack() as opened, client_errors(as_json), stack_access.aws_errors(as_json):
        ledger = Ledger(stack_access.outputs(stack, region)["LeasesTable"], 0)
        try:
            file = opened.enter_context(out.open("w", encoding="utf-8", newline="")) if out else sys.stdout
        except OSError as error:
            fail(Exit.USAGE, f"{out} cannot be written ({error.strerror})", as_json)
        items = ledger.granted(start, end, owner=owner, now=clock.now())
        count = export.write_records(map(export.audit_record, items), file, as_csv=as_csv)
    if out:
        show({"records": count, "file": str(out)}, as_json)


@dlq.command("list")
def list_dead_letters(stack: Stack = "", region: Region = "", as_json: Json = False) -> None:
    """List the messages in the dead-letter queues.

    Columns: queue, message id, body, reason of the failure.
    """
    from proxypool.cli import dead_letters, stack_access

    with client_errors(as_json), stack_access.aws_errors(as_json):
        queues = dead_letters.queues_from(stack_access.outputs(stack, region))
        messages = [dead_letters.as_json(message) for message in dead_letters.peek(queues, limit=LIST_LIMIT)]
    table({"messages": messages}, "messages", ("queue", "message_id", "body", "reason"), as_json)


@dlq.command()
def redrive(
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of messages per queue.")] = 1_000,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    stack: Stack = "", region: Region = "", as_json: Json = False,
) -> None:  # fmt: skip
    """Move the messages of the dead-letter queues back to their queues."""
    from proxypool.cli import dead_letters, stack_access

    with client_errors(as_json), stack_access.aws_errors(as_json):
        queues = dead_letters.queues_from(stack_access.outputs(stack, region))
        if stack and not yes:
            _confirm(f"Redrive up to {limit} messages per queue of {stack}?", as_json)
        show({"redriven": dead_letters.redrive(queues, limit=limit)}, as_json)


def _confirm(question: str, as_json: bool) -> None:
    """Asks on a terminal; without one the command ends, unless --yes was given."""
    if not sys.stdin.isatty():
        fail(Exit.USAGE, f"{question} Confirm with --yes", as_json)
    if not typer.confirm(question, err=True):
        raise typer.Exit(Exit.FAILED)
