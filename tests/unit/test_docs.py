"""Relative links of the README and the docs refer to existing files and headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """The page without its fenced code blocks and code spans."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub creates for headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        if ":" in path:
            continue  # another site
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_of_a_page_resolves(page: Path) -> None:
    assert broken_links(page) == []


def test_every_page_of_the_docs_is_linked_from_the_readme() -> None:
    links = {link.partition("#")[0] for link in LINK.findall(prose(ROOT / "README.md"))}

    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= links


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `heading`, here\n[1](#a-heading-here) [2](#other) [3](absent.md) [4](https://example.com/)\n")

    assert broken_links(page) == ["#other", "absent.md"]
