"""One stack for all end-to-end tests, which run on one worker in the order of their files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stack import LocalStack, local_stack, wait_until
from tests.support.tokens import AUDIENCE, Issuer, an_issuer

EVERY_MINUTE = "cron(* * * * ? *)"  # the emulator checks its schedules every ten seconds


@pytest.fixture(scope="package")
def issuer() -> Iterator[Issuer]:
    """The issuer of the tokens that the stack accepts."""
    with an_issuer() as running:
        yield running


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[LocalStack]:
    """A stack whose farm was scraped and checked; only the pruning of checks is scheduled, every minute."""
    folder = tmp_path_factory.mktemp("stack") / ".local"  # where the command line searches for it
    with local_stack(
        folder,
        PruneOldChecksSchedule=EVERY_MINUTE,
        ExpireLeasesSchedule="rate(1 day)",
        FetchWidth="2",
        JwtIssuer=issuer.url,
        JwtAudience=AUDIENCE,
    ) as running:
        assert running.running.farm is not None
        listed = json.loads(Path(running.running.farm).read_text())["list_file"]
        assert running.call("POST", "/sources", {"id": "farm", "path": listed, "parser": "lines"})[0] == 201
        assert running.call("POST", "/sources/farm/scrape")[0] in (200, 202)
        wait_until(lambda: running.statuses().get("active") and not running.statuses().get("unchecked"))
        yield running
