"""One measured value with its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

UNEXPLAINED = "not explained yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`target` is the maximum of `value`, or with `at_least` the minimum; None: no target.

    `reason` explains a missed target; it is omitted while the target holds.
    """

    name: str
    value: float | None  # None: not measured, which misses the target
    unit: str
    target: float | None = None
    at_least: bool = False
    reason: str = ""

    @property
    def holds(self) -> bool | None:
        """True if the value meets the target; None without a target."""
        if self.target is None:
            return None
        if self.value is None:
            return False
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def shown_reason(self) -> str:
        """The reason of a missing value or a missed target, else ""."""
        return self.reason or UNEXPLAINED if self.holds is False or self.value is None else ""

    def as_json(self) -> dict[str, Any]:
        """The row in the format of build/bench.json."""
        row = {"name": self.name, "value": self.value, "unit": self.unit, "target": self.target, "holds": self.holds}
        return {**row, "reason": self.shown_reason} if self.shown_reason else row


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| row | value | unit | target | holds | reason |", "|---|---|---|---|---|---|"]
    return "\n".join(lines + [_line(row) for row in rows])


def _line(row: Row) -> str:
    target = "" if row.target is None else f"{'≥' if row.at_least else '≤'} {_number(row.target)}"
    holds = {True: "yes", False: "NO", None: ""}[row.holds]
    value = "-" if row.value is None else _number(row.value)
    return f"| {row.name} | {value} | {row.unit} | {target} | {holds} | {row.shown_reason} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:g}"
