"""Counts discouraged words in comments, docstrings and the documentation. `make check` fails above LIMIT per 1,000 words.

The texts of this project use the terms of the field, as the sources of httpx, boto3 and redis-py do. The list has words that
those rarely use, with what to write instead; "" where that depends on the sentence.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PLACES: Final = ("layers", "functions", "tools", "tests", "docs")
LIMIT: Final = 4.0  # per 1,000 words
WORST: Final = 10  # files that are printed

REPLACEMENTS: Final[dict[str, str]] = {
    "afresh": "again", "anew": "again", "once more": "again", "of late": "recently", "by now": "already",
    "henceforth": "", "hence": "so", "thereby": "", "therein": "", "thereof": "", "likewise": "also", "lest": "so that not",
    "so many": "the number", "so-manieth": "Nth", "a while": "a time in seconds", "in between": "meanwhile", "in the end": "finally",
    "from then on": "after that", "to its end": "completely", "to their end": "completely", "may well": "may",
    "by itself": "automatically", "at hand": "available", "beside": "in addition to", "aside": "", "apart": "separate", "alike": "equal",
    "wholly": "completely", "unsaid": "silently", "shall": "must", "ours": "", "theirs": "",
    "tell": "report", "tells": "reports", "told": "reported", "telling": "reporting", "hear": "receive", "hears": "receives", "heard": "received",
    "said": "", "says": "", "saying": "", "asks": "requests", "asked": "requested", "learns": "reads", "learnt": "read",
    "stand": "be", "stands": "is", "stood": "was", "lies": "is", "goes on": "continues", "go on": "continue", "went on": "continued",
    "gives back": "releases", "give back": "release", "given back": "released", "takes back": "restores", "put back": "requeued",
    "is over": "has ended", "are over": "have ended", "no more": "no longer", "comes of": "", "came of": "", "word of": "",
    "fare": "", "fares": "", "fared": "", "befall": "", "bring through": "", "makes true": "", "what it is for": "",
    "nobody": "no caller", "somebody": "a caller", "everybody": "all", "anybody": "any", "whoever": "who", "whichever": "",
}  # fmt: skip
_DISCOURAGED: Final = re.compile(rf"\b(?:{'|'.join(sorted(REPLACEMENTS, key=len, reverse=True))})\b", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Za-z][\w'-]*")
_CODE: Final = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Count:
    """The number of words in a text, and its discouraged words with their lines."""

    words: int
    found: list[tuple[int, str]] = field(default_factory=list)

    @property
    def per_thousand(self) -> float:
        """Discouraged words per 1,000 words."""
        return 1_000 * len(self.found) / max(1, self.words)


def count(lines: Iterable[tuple[int, str]]) -> Count:
    """Counts the words of numbered texts; a text may have several lines."""
    words, found = 0, []
    for number, text in lines:
        words += len(_WORD.findall(text))
        for match in _DISCOURAGED.finditer(text):
            found.append((number + text.count("\n", 0, match.start()), match[0].lower()))
    return Count(words, found)


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of Python code, with their line numbers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                yield first.lineno, first.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def page_texts(page: str) -> Iterator[tuple[int, str]]:
    """The text of a Markdown page without code."""
    yield 1, _CODE.sub(lambda match: "\n" * match[0].count("\n"), page)


def files(places: Iterable[Path]) -> Iterator[Path]:
    """The Python files of folders, and the pages of docs."""
    for place in places:
        yield from [place] if place.is_file() else sorted([*place.rglob("*.py"), *place.glob("*.md")])


def count_file(path: Path) -> Count:
    """Counts the words of one file."""
    text = path.read_text(encoding="utf-8")
    return count(page_texts(text) if path.suffix == ".md" else python_texts(text))


def main(arguments: list[str] | None = None) -> int:
    """Prints the total, the most frequent words and the worst files; returns 1 above LIMIT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="*", type=Path, default=[ROOT / name for name in PLACES])
    parser.add_argument("--lines", action="store_true", help="print every occurrence")
    options = parser.parse_args(arguments)
    counts = {path: count_file(path) for path in files(options.places)}
    total = Count(sum(each.words for each in counts.values()), [hit for each in counts.values() for hit in each.found])
    print(
        f"{len(total.found)} discouraged words in {total.words:,}: {total.per_thousand:.1f} per 1,000 (limit {LIMIT:g})"
    )
    if options.lines:
        for path, each in counts.items():
            for number, word in each.found:
                print(f"{path}:{number}: {word}" + (f" -> {REPLACEMENTS[word]}" if REPLACEMENTS[word] else ""))
    if total.per_thousand <= LIMIT:
        return 0
    print(", ".join(f"{word} {times}" for word, times in Counter(word for _, word in total.found).most_common(WORST)))
    for path, each in sorted(counts.items(), key=lambda item: len(item[1].found), reverse=True)[:WORST]:
        print(f"{path}: {len(each.found)} ({each.per_thousand:.0f} per 1,000)")
    return 1


if __name__ == "__main__":
    sys.exit(main())
