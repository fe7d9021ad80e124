"""Generates the last column of docs/promises.md: the tests that cite each number. Fails for a cited number without a row."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "promises.md"
_NUMBERS = r"((?:\d+(?:\s*[–-]\s*\d+)?(?:,\s*|\s+and\s+)?)+)"
CITATIONS = {
    "Invariants": re.compile(r"\bI(\d{1,2})\b"),
    "Hostile inputs and faults": re.compile(rf"\binputs?\s+{_NUMBERS}", re.IGNORECASE),
    "Cases": re.compile(rf"\bcases?\s+{_NUMBERS}", re.IGNORECASE),
}
_ROW = re.compile(r"^\| (I?)(\d+) \| (.*?) \|(?: (.*) \|)?$")


def numbers(text: str) -> set[int]:
    """The numbers of a citation: "3, 7–9 and 12"."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:\s*[–-]\s*(\d+))?", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def cited(section: str) -> dict[int, list[str]]:
    """The test files that cite each number of a section."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path.name == "test_promises.py":
            continue
        text = path.read_text(encoding="utf-8")
        for number in {one for match in CITATIONS[section].findall(text) for one in numbers(match)}:
            found[number].append(path.relative_to(ROOT / "tests").as_posix())
    return found


def filled(page: str) -> tuple[str, list[str]]:
    """The page with regenerated last columns and sorted rows; and the cited numbers that have no row."""
    missing: list[str] = []
    parts = re.split(r"^## (.*)\n", page, flags=re.MULTILINE)
    out = [parts[0]]
    for section, body in zip(parts[1::2], parts[2::2], strict=True):
        rows = [match for line in body.splitlines() if (match := _ROW.match(line))]
        texts = {int(row[2]): row[3] for row in reversed(rows)}
        letter = "I" if section == "Invariants" else ""
        tests = cited(section)
        missing += [f"{section} {number}" for number in sorted(tests) if number not in texts]
        head = body.splitlines()[:3]
        lines = [
            f"| {letter}{number} | {texts[number]} | {', '.join(f'`{name}`' for name in tests[number])} |"
            for number in sorted(texts)
            if number in tests
        ]
        out += [f"## {section}\n", "\n".join([*head, *lines]), "\n\n"]
    return "".join(out).rstrip() + "\n", missing


if __name__ == "__main__":
    page, without_row = filled(PAGE.read_text(encoding="utf-8"))
    if without_row:
        sys.exit("cited by a test, but without a row in docs/promises.md: " + ", ".join(without_row))
    PAGE.write_text(page, encoding="utf-8")
