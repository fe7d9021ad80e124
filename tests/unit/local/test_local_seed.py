"""Which sources `make up SOURCES=…` takes, and which judge serves them."""

from __future__ import annotations

from pathlib import Path

import pytest
from proxypool.local.process import LocalStackError
from proxypool.local.seed import is_loopback_only, read_sources


def test_a_file_of_lines_is_one_source(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("127.0.0.2:8080\n")

    assert read_sources(file) == [{"path": str(file), "parser": "lines"}]


def test_paths_in_a_toml_file_are_relative_to_it(tmp_path: Path) -> None:
    file = tmp_path / "sources.toml"
    file.write_text(
        '[[source]]\npath = "a.txt"\nkind = "datacenter"\n[[source]]\nurl = "https://lists.example.com/p"\n'
    )

    found = read_sources(file)

    assert found == [
        {"path": str(tmp_path / "a.txt"), "kind": "datacenter"},
        {"url": "https://lists.example.com/p"},
    ]


@pytest.mark.parametrize("text", ["not = [toml", "x = 1\n", "source = 3\n"])
def test_a_toml_file_without_sources_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "sources.toml"
    file.write_text(text)

    with pytest.raises(LocalStackError) as raised:
        read_sources(file)

    assert "sources.toml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalStackError, match="cannot be read"):
        read_sources(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.2:8080\n127.1.2.3:80\n", True),
        ("http://user:pass@127.0.0.2:8080\n", True),
        ("127.0.0.2:8080\n192.0.2.7:80\n", False),  # one real proxy cannot reach a judge on loopback
        ("proxy.example.com:80\n", False),
        ("http://user:127.0.0.1:1@192.0.2.7:80\n", False),  # a password that looks like loopback
        ("", False),
    ],
)
def test_the_loopback_judge_serves_lists_of_loopback_proxies_alone(text: str, expected: bool) -> None:
    assert is_loopback_only([{"inline": text}]) is expected


def test_a_list_on_the_web_is_not_taken_for_loopback() -> None:
    assert not is_loopback_only([{"url": "https://lists.example.com/p"}])
