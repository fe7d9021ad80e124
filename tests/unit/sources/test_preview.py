"""`proxypool sources test`: its output, masking and errors; it needs no stack."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from proxypool.proxies.proxy import Protocol
from proxypool.sources.formats import Options
from proxypool.sources.preview import preview
from proxypool_client.cli.app import app, load_all
from typer.testing import CliRunner

LIST = "8.8.8.8:80\nsocks5://u:s3cret@8.8.4.4:1080\n10.0.0.1:80\n127:0:0:1:80\n8.8.8.8:80\n"


def _run(*arguments: str, code: int = 0) -> str:
    load_all()
    result = CliRunner().invoke(app, ["sources", "test", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def _file(folder: Path, text: str = LIST) -> str:
    path = folder / "list.txt"
    path.write_text(text)
    return str(path)


def test_a_preview_has_format_counts_reasons_and_rows(tmp_path: Path) -> None:
    """Case 14: the documented format; duplicates are counted."""
    result = json.loads(_run(_file(tmp_path), "--json"))

    assert result == {
        "format": "lines",
        "rows": 5,
        "valid": 2,
        "repeated": 1,
        "rejected": {"malformed": 1, "private": 1},
        "proxies": [
            {"protocol": "http", "host": "8.8.8.8", "port": 80, "username": None, "password_masked": None},
            {"protocol": "socks5", "host": "8.8.4.4", "port": 1080, "username": "u", "password_masked": "***"},
        ],
    }


def test_a_preview_shows_no_password(tmp_path: Path) -> None:
    """I19, case 36: neither as text nor as JSON."""
    location = _file(tmp_path)

    assert "s3cret" not in _run(location) + _run(location, "--json", "--all")
    assert "socks5://u:***@8.8.4.4:1080" in _run(location)


def test_ten_rows_are_shown_and_all_on_request(tmp_path: Path) -> None:
    """`--all`."""
    location = _file(tmp_path, "".join(f"8.8.8.{number}:80\n" for number in range(1, 26)))

    counts = [len(json.loads(_run(location, "--json", *more))["proxies"]) for more in ([], ["--all"])]

    assert counts == [10, 25]


def test_each_bad_address_has_its_reason(tmp_path: Path) -> None:
    """Case 16, input 12: the same as in a scrape; private addresses are accepted on request, metadata never."""
    lines = "999.1.2.3:80\n8.8.8.8:99999\n8.8.8.8:25\n10.0.0.1:80\n127.0.0.1:80\n169.254.169.254:80\n100.64.0.1:80\n[::ffff:127.0.0.1]:80\n"
    location = _file(tmp_path, lines)

    strict = json.loads(_run(location, "--json"))["rejected"]
    own = json.loads(_run(location, "--json", "--allow-private"))["rejected"]

    assert strict == {
        "malformed": 1, "port": 1, "port_refused": 1, "private": 1, "loopback": 2, "link_local": 1, "shared": 1,
    }  # fmt: skip
    assert own == {"malformed": 1, "port": 1, "port_refused": 1, "link_local": 1, "shared": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-file"], "unreadable"),
        (["https://10.0.0.1/list"], "refused: private"),  # input 1: also in a preview
        (["http://8.8.8.8/list"], "refused: scheme"),
        (["https://u:p@list.example/"], "refused: credentials"),  # input 15
        ([__file__, "--parser", "nonsense"], "unknown format nonsense"),
        ([__file__, "--protocol", "ftp"], "unknown protocol ftp"),
    ],
)
def test_an_error_is_one_line(arguments: list[str], words: str) -> None:
    """Exit code 2, no traceback."""
    assert words in _run(*arguments, code=2)


def test_a_format_and_a_path_can_be_set(tmp_path: Path) -> None:
    """`--parser json:path`, `--protocol`."""
    location = _file(tmp_path, '{"data":[{"ip":"8.8.8.8","port":80}],"old":["8.8.4.4:80"]}')

    result = json.loads(_run(location, "--json", "--parser", "json:data", "--protocol", "socks5"))

    assert [(proxy["protocol"], proxy["host"]) for proxy in result["proxies"]] == [("socks5", "8.8.8.8")]


def test_an_endpoint_of_the_pool_is_rejected() -> None:
    """Input 13."""
    result = preview(io.BytesIO(b"d111.cloudfront.net:80\n"), Options(default_protocol=Protocol.HTTP))

    assert dict(result.rejected) == {"ours": 1}
