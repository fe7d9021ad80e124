"""One stack for all end-to-end tests: they run on one worker, in the order of their files, each on what it makes itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stack import LocalStack, local_stack, until
from tests.support.tokens import AUDIENCE, Issuer, an_issuer

EVERY_MINUTE = "cron(* * * * ? *)"  # the emulator looks at its schedules each ten seconds


@pytest.fixture(scope="package")
def issuer() -> Iterator[Issuer]:
    """Whose tokens the stack takes."""
    with an_issuer() as found:
        yield found


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[LocalStack]:
    """A stack whose farm was scraped and checked; only the daily pruning of checks is on schedule, and that each minute."""
    folder = tmp_path_factory.mktemp("stack") / ".local"  # where the command line looks for it
    with local_stack(
        folder,
        PruneOldChecksSchedule=EVERY_MINUTE,
        ExpireLeasesSchedule="rate(1 day)",
        FetchWidth="2",
        JwtIssuer=issuer.url,
        JwtAudience=AUDIENCE,
    ) as found:
        assert found.at.farm is not None
        listed = json.loads(Path(found.at.farm).read_text())["list_file"]
        assert found.call("POST", "/sources", {"id": "farm", "path": listed, "parser": "lines"})[0] == 201
        assert found.call("POST", "/sources/farm/scrape")[0] in (200, 202)
        until(lambda: found.statuses().get("active") and not found.statuses().get("unchecked"))
        yield found
