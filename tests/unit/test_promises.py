"""docs/promises.md and the tests name the same numbers, both ways."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CITATION = {
    "I": re.compile(r"\bI(\d{1,2})\b"),
    "input": re.compile(r"\binputs?\s+((?:\d+(?:\s*[–-]\s*\d+)?(?:,\s*|\s+and\s+)?)+)", re.IGNORECASE),
    "case": re.compile(r"\bcases?\s+((?:\d+(?:\s*[–-]\s*\d+)?(?:,\s*|\s+and\s+)?)+)", re.IGNORECASE),
}
SECTION = {"I": "Invariants", "input": "Hostile inputs and faults", "case": "Cases"}


def _numbers(text: str) -> set[int]:
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:\s*[–-]\s*(\d+))?", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _cited(kind: str) -> set[int]:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    return {number for text in texts for match in CITATION[kind].findall(text) for number in _numbers(match)}


def _documented(kind: str) -> set[int]:
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    section = page.split(f"## {SECTION[kind]}\n", 1)[1].split("\n## ", 1)[0]
    return {int(number) for number in re.findall(r"^\| I?(\d+) \|", section, re.MULTILINE)}


@pytest.mark.parametrize("kind", list(CITATION))
def test_each_promise_that_a_test_cites_is_restated_and_each_restated_one_has_a_test(kind: str) -> None:
    assert _cited(kind) == _documented(kind)
