"""The counter of discouraged words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import words

CODE = '''"""A module that nobody reads.

It lies here."""

nobody = "told"  # stands


def whoever() -> None:
    """Goes
    on."""
'''


def test_docstrings_and_comments_are_counted_and_code_is_not() -> None:
    counted = words.count(words.python_texts(CODE))

    assert sorted(counted.found) == [(1, "nobody"), (3, "lies"), (5, "stands")]
    assert counted.words == 11


def test_a_page_is_counted_without_its_code() -> None:
    page = "# Told\n\n```\nnobody\n```\nUse `whoever` anew.\n"

    assert words.count(words.page_texts(page)).found == [(1, "told"), (6, "anew")]


def test_a_discouraged_phrase_is_one_hit_and_no_part_of_a_word() -> None:
    assert [word for _, word in words.count([(1, "Given back by itself, untold understands.")]).found] == [
        "given back", "by itself",
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "code"), [("one two three " * 100 + "anew", 0), ("one two three " * 80 + "anew", 1)])
def test_more_than_four_per_thousand_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int
) -> None:
    (tmp_path / "page.md").write_text(text)

    assert words.main([str(tmp_path)]) == code
    assert ("page.md: 1 (" in capsys.readouterr().out) == bool(code)
