"""`proxypool leases export`: the ledger as lines of JSON or CSV, on the emulated AWS."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from proxypool import aws, clock
from proxypool.cli.app import app
from proxypool.leases.ledger.journal import LedgerRow
from proxypool.leases.ledger.table import Ledger
from proxypool.local.state_folder import write_private
from proxypool_client.cli.output import Exit
from pynamodb.exceptions import ScanError
from typer.testing import CliRunner

from tests.support.clock import Clock
from tests.support.servers import create_tables

DAY_MS = 86_400_000
TODAY_MS = clock.epoch_ms(datetime(2028, 3, 1, tzinfo=UTC))  # the days before it are those of a leap year
NOON = datetime(2028, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def at_noon(clock: Clock) -> None:
    """All leases of "today" were granted before the command runs."""
    clock.set(NOON)


@pytest.fixture
def ledger(aws_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """The ledger of the stack that runs in this folder; what a command sets for its process ends with the test."""
    before = dict(os.environ)
    aws.client.cache_clear()
    table = create_tables(f"x{uuid4().hex[:8]}-")["LeasesTable"]
    (tmp_path / ".local").mkdir(mode=0o700)
    found = {"api_url": "http://127.0.0.1:1", "endpoint_url": aws_endpoint, "outputs": {"LeasesTable": table}}
    found["access_key"] = os.environ["AWS_ACCESS_KEY_ID"]
    write_private(tmp_path / ".local" / "stack.json", json.dumps(found))
    monkeypatch.chdir(tmp_path)
    yield Ledger(table, 90)
    os.environ.clear()
    os.environ.update(before)
    aws.client.cache_clear()


def a_row(number: int, owner: str, **changes: Any) -> LedgerRow:
    """A lease of a minute, granted today."""
    granted = changes.pop("granted_ms", TODAY_MS + number * 1000)
    return LedgerRow(
        lease_id=f"{number:032x}.1", owner=owner, proxy_id="b" * 20, granted_ms=granted, expires_ms=granted + 60_000, **changes
    )  # fmt: skip


def run(*words: str) -> Any:
    """What the command answered."""
    return CliRunner().invoke(app, ["export", *words])


def lines(found: Any) -> list[dict[str, Any]]:
    """The records on stdout, in the order of their ids."""
    assert found.exit_code == 0, found.stderr
    return sorted((json.loads(line) for line in found.stdout.splitlines()), key=lambda one: str(one["lease_id"]))


def test_every_lease_has_one_record_with_owner_proxy_target_times_and_outcome(ledger: Ledger) -> None:
    """I23: of one that ended, and of one that lives."""
    ended = {"target": "shop.example", "outcome": "blocked", "ended": "released", "ended_ms": TODAY_MS + 5_057}
    ledger.write([a_row(1, "ann", **ended), a_row(2, "bob")])
    day = datetime.fromtimestamp(TODAY_MS / 1000, UTC).date().isoformat()

    assert lines(run()) == [
        {
            "lease_id": f"{1:032x}.1", "owner": "ann", "proxy_id": "b" * 20, "target": "shop.example",
            "granted_at": f"{day}T00:00:01.000Z", "expires_at": f"{day}T00:01:01.000Z", "ended": "released",
            "ended_at": f"{day}T00:00:05.057Z", "outcome": "blocked",
        },
        {
            "lease_id": f"{2:032x}.1", "owner": "bob", "proxy_id": "b" * 20, "target": None,
            "granted_at": f"{day}T00:00:02.000Z", "expires_at": f"{day}T00:01:02.000Z", "ended": None, "ended_at": None,
            "outcome": None,
        },
    ]  # fmt: skip


def test_the_export_is_filtered_by_days_and_owner(ledger: Ledger) -> None:
    """I23: both days are included, in UTC; an owner's export has only that owner's records."""
    days = {number: TODAY_MS + number * DAY_MS for number in (-3, -2, -1)}
    rows = [a_row(number, owner, granted_ms=at) for number, (owner, at) in enumerate([
        ("ann", days[-3]), ("ann", days[-2]), ("bob", days[-2]), ("ann", days[-1] + DAY_MS - 1), ("ann", TODAY_MS),
    ])]  # fmt: skip
    ledger.write(rows)
    first, last = (datetime.fromtimestamp(days[number] / 1000, UTC).date().isoformat() for number in (-2, -1))

    def numbers(*words: str) -> list[int]:
        return [int(one["lease_id"][:32], 16) for one in lines(run(*words))]

    assert numbers() == [0, 1, 2, 3, 4]
    assert numbers("--from", first) == [1, 2, 3, 4]
    assert numbers("--to", last) == [0, 1, 2, 3]
    assert numbers("--from", first, "--to", last, "--owner", "ann") == [1, 3]
    assert numbers("--owner", "bob") == [2]
    assert numbers("--owner", "eve") == []


def test_a_long_ledger_is_exported_to_a_csv_file(ledger: Ledger, tmp_path: Path) -> None:
    """I23: more than one page of the table, each record once."""
    ledger.write([a_row(number, "ann" * 40, target="shop.example" * 20) for number in range(3_000)])
    file = tmp_path / "ledger.csv"

    found = run("--csv", "--out", str(file), "--json")

    assert json.loads(found.stdout) == {"records": 3_000, "file": str(file)}
    with file.open(newline="") as text:
        records = list(csv.DictReader(text))
    assert {one["lease_id"] for one in records} == {f"{number:032x}.1" for number in range(3_000)}
    assert len(records) == 3_000
    assert (records[0]["owner"], records[0]["outcome"]) == ("ann" * 40, "")


def test_a_row_past_its_ttl_is_not_exported(ledger: Ledger) -> None:
    """Input 80: DynamoDB deletes it days later."""
    old = a_row(1, "ann", granted_ms=TODAY_MS - 91 * DAY_MS)
    ledger.write([old, a_row(2, "ann")])

    assert [one["lease_id"] for one in lines(run())] == [f"{2:032x}.1"]
    assert ledger.get(old.lease_id)


def test_an_error_is_one_line(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day that is none, a file that cannot be, a reader who may not."""
    wrong_day, no_folder = run("--from", "yesterday"), run("--out", str(tmp_path / "none" / "x"))

    def denied(*_: Any, **__: Any) -> Any:
        cause = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "Scan")
        raise ScanError("Failed to scan table", cause)

    monkeypatch.setattr(Ledger, "granted", denied)
    refused = run()

    assert (wrong_day.exit_code, no_folder.exit_code, refused.exit_code) == (Exit.USAGE, Exit.USAGE, Exit.CREDENTIALS)
    assert len(no_folder.stderr.splitlines()) == len(refused.stderr.splitlines()) == 1
