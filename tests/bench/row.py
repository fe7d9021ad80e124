"""One measured number beside its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`target` is the most that `value` may be; None: it is told, not judged. `reason` says why a target is missed."""

    name: str
    value: float | None  # None: it could not be measured, which misses a target
    unit: str
    target: float | None = None
    reason: str = ""

    @property
    def holds(self) -> bool | None:
        """Computed from value and target, never set."""
        if self.target is None:
            return None
        return self.value is not None and self.value <= self.target

    def as_json(self) -> dict[str, Any]:
        """The row as build/bench.json has it."""
        row = {"name": self.name, "value": self.value, "unit": self.unit, "target": self.target, "holds": self.holds}
        return {**row, "reason": self.reason} if self.reason else row


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| row | value | unit | target (at most) | holds | reason |", "|---|---|---|---|---|---|"]
    lines += [f"| {row.name} | {row.value} | {row.unit} | {row.target} | {row.holds} | {row.reason} |" for row in rows]
    return "\n".join(lines)
