"""Files for `make up SOURCES=…`: what is accepted, what must be acknowledged, and which judge checks the proxies."""

from __future__ import annotations

from pathlib import Path

import pytest
from proxypool.local.user_sources import PUBLIC_JUDGE, UserSources, read_user_sources
from proxypool_client.errors import SourceFileError


def read(tmp_path: Path, text: str, name: str = "sources.toml", **environment: str) -> UserSources:
    file = tmp_path / name
    file.write_text(text)
    return read_user_sources(file, environment)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(SourceFileError) as raised:
        read(tmp_path, text)
    assert "sources.toml" in str(raised.value)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_any_other_file_than_toml_is_one_list(tmp_path: Path) -> None:
    (entry,) = read(tmp_path, "127.0.0.2:8080\n", "mine.txt").entries

    assert (entry.body["path"], entry.label) == (str(tmp_path / "mine.txt"), "mine.txt")


def test_paths_in_a_toml_file_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("127.0.0.2:8080\n")

    (entry,) = read(tmp_path, '[[source]]\npath = "a.txt"\nkind = "datacenter"\n').entries

    assert (entry.body["path"], entry.body["kind"]) == (str(tmp_path / "a.txt"), "datacenter")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("not = [toml", "is not valid TOML"),
        ("x = 1\n", "no [[source]]"),
        ("source = 3\n", "no [[source]]"),
        ("source = [3]\n", "no [[source]]"),
        ('acknowlege = true\n[[source]]\ninline = "127.0.0.2:80"\n', "unknown key at the top level: acknowlege"),
        ('[[source]]\ninline = "192.0.2.7:80"\n[judge]\nport = 1\n', "keys of [judge]"),
        ('[[source]]\nurl = "https://lists.example.com/p"\nacknowledge = true\n', "above the first"),
    ],
)
def test_an_invalid_file_is_an_error_of_one_line(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in refusal(tmp_path, text)


@pytest.mark.parametrize("name", ["none.toml", "none.txt", "."])
def test_a_missing_file_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceFileError, match="cannot be read"):
        read_user_sources(tmp_path / name)


def test_a_binary_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(SourceFileError, match="not UTF-8 text"):
        read_user_sources(tmp_path / "mine.txt")


@pytest.mark.parametrize("first_line", ["", "acknowledge = false\n", 'acknowledge = "yes"\n', "acknowledge = 1\n"])
def test_a_list_on_the_web_must_be_acknowledged(tmp_path: Path, first_line: str) -> None:
    text = refusal(tmp_path, f'{first_line}[[source]]\nurl = "https://lists.example.com/p"\n')

    assert "acknowledge = true" in text
    assert "may use in writing" in text


def test_an_acknowledged_list_on_the_web_is_accepted(tmp_path: Path) -> None:
    (entry,) = read(tmp_path, 'acknowledge = true\n[[source]]\nurl = "https://lists.example.com/p"\n').entries

    assert entry.body["url"] == "https://lists.example.com/p"


def test_a_list_on_this_machine_needs_no_acknowledgement(tmp_path: Path) -> None:
    (entry,) = read(tmp_path, '[[source]]\nurl = "http://127.0.0.1:8000/p"\n').entries

    assert entry.body["url"] == "http://127.0.0.1:8000/p"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.2:8080\n127.1.2.3:80\n", True),
        ("# mine\n\nhttp://user:pass@127.0.0.2:8080\n", True),
        ("127.0.0.2:8080\n192.0.2.7:80\n", False),  # one proxy cannot reach a judge on loopback
        ("proxy.example.com:80\n", False),
        ("http://user:127.0.0.1:1@192.0.2.7:80\n", False),  # a password that looks like loopback
        ("", False),
    ],
)
def test_the_loopback_judge_checks_lists_of_loopback_proxies_only(tmp_path: Path, text: str, expected: bool) -> None:
    assert (read(tmp_path, text, "mine.txt").judge is None) is expected


def test_other_proxies_are_checked_by_a_public_service_by_default(tmp_path: Path) -> None:
    judge = read(tmp_path, "192.0.2.7:80\n", "mine.txt").judge

    assert judge is not None
    assert (judge.url, judge.key) == (PUBLIC_JUDGE, "")


def test_the_key_of_a_deployed_judge_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "judge.key").write_text("0123abcd\n")
    table = '[judge]\nurl = "http://j.example.com/"\nhttps_url = "https://j.example.com/"\nkey_file = "judge.key"\n'

    judge = read(tmp_path, f'{table}[[source]]\ninline = "192.0.2.7:80"\n').judge

    assert judge is not None
    assert (judge.url, judge.https_url, judge.key) == ("http://j.example.com/", "https://j.example.com/", "0123abcd")


def test_a_judge_in_the_file_checks_loopback_proxies_too(tmp_path: Path) -> None:
    judge = read(tmp_path, '[judge]\nurl = "http://127.0.0.1:1/get"\n[[source]]\ninline = "127.0.0.2:80"\n').judge

    assert judge is not None
    assert judge.url == "http://127.0.0.1:1/get"


def test_the_judge_can_be_set_in_the_environment(tmp_path: Path) -> None:
    judge = read(tmp_path, "192.0.2.7:80\n", "mine.txt", PROXYPOOL_JUDGE_URL="http://j.example.com/").judge

    assert judge is not None
    assert judge.url == "http://j.example.com/"
