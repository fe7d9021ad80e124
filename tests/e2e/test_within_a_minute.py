"""What comes by itself within a minute: in the last file, so that the minute has passed while the others ran."""

from __future__ import annotations

import pytest

from tests.support.stack import LocalStack, until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(120)]


def test_a_schedule_fires(stack: LocalStack) -> None:
    """More runs of prune_old_checks than these tests asked for: EventBridge Scheduler started them."""

    def runs() -> int:
        return sum(line.get("message") == "prune_old_checks done" for line in stack.log("PruneOldChecks"))

    until(lambda: runs() > stack.invoked["PruneOldChecks"], 90)
