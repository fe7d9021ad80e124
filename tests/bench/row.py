"""One measured number beside its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

UNEXPLAINED = "not explained yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`target` is the most that `value` may be, with `at_least` the least; None: the value is told, not judged.

    `reason` says why the target is missed where it is. Write it when the miss is known; it is left out while the target holds.
    """

    name: str
    value: float | None  # None: it could not be measured, which misses a target
    unit: str
    target: float | None = None
    at_least: bool = False
    reason: str = ""

    @property
    def holds(self) -> bool | None:
        """Computed from value and target, never set. None where there is no target."""
        if self.target is None:
            return None
        if self.value is None:
            return False
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def told_reason(self) -> str:
        """Why there is no value, or why the target is missed; empty where all is well."""
        return self.reason or UNEXPLAINED if self.holds is False or self.value is None else ""

    def as_json(self) -> dict[str, Any]:
        """The row as build/bench.json has it."""
        row = {"name": self.name, "value": self.value, "unit": self.unit, "target": self.target, "holds": self.holds}
        return {**row, "reason": self.told_reason} if self.told_reason else row


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| row | value | unit | target | holds | reason |", "|---|---|---|---|---|---|"]
    return "\n".join(lines + [_line(row) for row in rows])


def _line(row: Row) -> str:
    target = "" if row.target is None else f"{'≥' if row.at_least else '≤'} {_number(row.target)}"
    holds = {True: "yes", False: "NO", None: ""}[row.holds]
    value = "-" if row.value is None else _number(row.value)
    return f"| {row.name} | {value} | {row.unit} | {target} | {holds} | {row.told_reason} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:g}"
