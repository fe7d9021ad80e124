"""Tables, documents and archives: CSV, HTML, JSON at any depth, gzip and zip; and format detection."""

from __future__ import annotations

import gzip
import io
import zipfile

import pytest
from proxypool.errors import SourceError
from proxypool.proxies.proxy import Protocol
from proxypool.sources.formats import REJECTION_REASONS, Options, ParseResult, merge_results, parse, parse_stream

TABLE = """<!doctype html><html><body><h1>Free proxies</h1>
<table><thead><tr><th>IP Address</th><th>Port</th><th>Code</th><th>Speed</th><th>Protocol</th></tr></thead><tbody>
<tr><td>198.51.100.1</td><td>8080</td><td>US</td><td>350</td><td>HTTP</td></tr>
<tr><td> 198.51.100.2 </td><td>1080</td><td>DE</td><td>1200</td><td>Socks5</td></tr>
<tr><td colspan="5">advertisement</td></tr></tbody></table></body></html>"""


def _parse(text: str | bytes, name: str = "auto") -> ParseResult:
    return parse(name, text if isinstance(text, bytes) else text.encode(), default_protocol=Protocol.HTTP)


def _urls(text: str | bytes, name: str = "auto") -> list[str]:
    return [proxy.url for proxy in _parse(text, name).proxies]


def test_a_table_is_parsed_by_its_header() -> None:
    """The latency is not taken for the port; a row without an address is counted."""
    result = _parse(TABLE)

    assert [proxy.url for proxy in result.proxies] == ["http://198.51.100.1:8080", "socks5://198.51.100.2:1080"]
    assert (result.format, dict(result.rejected)) == ("html", {"no_address": 1})


@pytest.mark.parametrize(
    "header",
    [
        "<tr><th>IP</th><th>Speed</th><th>Port</th></tr>",
        "<tr><th>Adresse</th><th>Latenz</th><th>Anschluss</th></tr>",
        "",
    ],
)
def test_a_latency_column_before_the_port_is_not_taken_for_it(header: str) -> None:
    """By the header if its names are known, else by the content of the columns."""
    rows = "".join(
        f"<tr><td>198.51.100.{number}</td><td>{117 + number * 31}</td><td>{port}</td></tr>"
        for number, port in enumerate((8080, 3128, 1080, 80), 1)
    )

    assert _urls(f"<html><table>{header}{rows}</table></html>") == [
        "http://198.51.100.1:8080", "http://198.51.100.2:3128", "http://198.51.100.3:1080", "http://198.51.100.4:80",
    ]  # fmt: skip


def test_a_page_without_a_table_is_parsed_line_by_line() -> None:
    """Other text of the page is not counted as rows."""
    page = "<html><body><p>Updated 10:00</p><pre>198.51.100.1:80\nsocks5://198.51.100.2:81</pre></body></html>"

    assert _urls(page) == ["http://198.51.100.1:80", "socks5://198.51.100.2:81"]


def test_a_challenge_page_is_one_rejected_row() -> None:
    """Input 24, case 31: no proxies are invented."""
    result = _parse(
        "<!doctype html><html><head><title>Just a moment...</title></head><body><form>x</form></body></html>"
    )

    assert (result.proxies, dict(result.rejected)) == ((), {"no_address": 1})


def test_nested_tables_and_scripts_in_cells_are_handled() -> None:
    """Nested tables for layout, and a cell with a script."""
    inner = "<table><tr><td>198.51.100.1<script>x('1.1.1.1:1')</script></td><td>8080</td></tr></table>"

    assert _urls(f"<html><table><tr><td>menu</td><td>{inner}</td></tr></table></html>") == ["http://198.51.100.1:8080"]


def test_deep_html_does_not_break_the_parser() -> None:
    """Input 27: a denial of service by depth."""
    for tags in ("<div>", "<dt><li><p>", "<b a=1><p>"):
        result = _parse("<html>" + tags * 100_000 + "198.51.100.1:80")

        assert (result.proxies, dict(result.rejected)) == ((), {"too_deep": 1})


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("ip,port,protocols\n198.51.100.1,8080,socks5\n", ["socks5://198.51.100.1:8080"]),
        ("country;port;ip\nUS;8080;198.51.100.1\n", ["http://198.51.100.1:8080"]),
        ("IP\tPort\tUser\tPassword\n198.51.100.1\t8080\tu\tp,w\n", ["http://u:p%2Cw@198.51.100.1:8080"]),
        (
            '"host","port","username","password"\n"gw.example.net","7000","u","p""q"\n',
            ["http://u:p%22q@gw.example.net:7000"],
        ),
        ("proxy,latency\nhttp://u:p@198.51.100.1:80,120\n", ["http://u:p@198.51.100.1:80"]),
        ("ip,port\n198.51.100.1,http\n198.51.100.2,80\n", ["http://198.51.100.2:80"]),
    ],
)
def test_csv_with_a_header_is_parsed_by_its_names(text: str, urls: list[str]) -> None:
    """Any order, any delimiter, quotes, credentials."""
    result = _parse(text)

    assert ([proxy.url for proxy in result.proxies], result.format) == (urls, "csv")


def test_csv_without_a_header_is_parsed_by_its_content() -> None:
    """The port is the column right of the address, the latency is further right."""
    text = "1,US,198.51.100.1,8080,350\n2,DE,198.51.100.2,3128,80\n"

    assert _urls(text, "csv") == _urls(text) == ["http://198.51.100.1:8080", "http://198.51.100.2:3128"]


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ('{"a":{"b":[{"c":{"ip":"198.51.100.4","port":80}}]}}', ["http://198.51.100.4:80"]),  # any depth
        ('{"socks5":["198.51.100.4:80"],"http":["198.51.100.5:81"]}', ["socks5://198.51.100.4:80", "http://198.51.100.5:81"]),
        ('[["198.51.100.4",80,"socks4"],["198.51.100.5","81"]]', ["socks4://198.51.100.4:80", "http://198.51.100.5:81"]),
        ('{"updated":"2026-01-01 10:00:00","eu":"198.51.100.4:80"}', ["http://198.51.100.4:80"]),
        ('[{"ip":"198.51.100.4","ports":{"http":80,"socks5":1080}}]', ["http://198.51.100.4:80", "socks5://198.51.100.4:1080"]),
        ('[{"ipAddress":"198.51.100.4","proxy_port":80,"Type":"SOCKS5"}]', ["socks5://198.51.100.4:80"]),
        ('[{"ip":"198.51.100.4:80","username":"u","password":"p"}]', ["http://u:p@198.51.100.4:80"]),
        ('[{"proxy_address":"198.51.100.4","port":80,"username":"u-{session}","password":"p:@"}]', ["http://u-%7Bsession%7D:p%3A%40@198.51.100.4:80"]),
        ('[{"ip":"198.51.100.4","port":80.0},{"ip":"198.51.100.4","port":true}]', []),
    ],
)  # fmt: skip
def test_json_is_searched_at_any_depth(text: str, urls: list[str]) -> None:
    """Case 15 and similar."""
    assert _urls(text) == _urls(text, "json") == urls


def test_a_dotted_path_selects_the_rows() -> None:
    """`json:data.items`: other parts are ignored, a path without a value is one rejected row."""
    text = '{"old":[{"ip":"198.51.100.9","port":1}],"data":{"items":[{"ip":"198.51.100.4","port":80}]}}'

    assert _urls(text, "json:data.items") == _urls(text, "json:data.items.0") == ["http://198.51.100.4:80"]
    assert dict(_parse(text, "json:data.rows").rejected) == {"no_path": 1}


def test_ndjson_is_one_document_per_line() -> None:
    """An invalid document rejects one line only."""
    text = '{"ip":"198.51.100.1","port":80,"at":"10:00:00"}\n{"ip":"198.51.100.2"\n{"data":{"ip":"198.51.100.3","port":81}}\n'
    result = _parse(text)

    assert [proxy.url for proxy in result.proxies] == ["http://198.51.100.1:80", "http://198.51.100.3:81"]
    assert (result.format, dict(result.rejected)) == ("ndjson", {"not_json": 1})
    assert _urls('{"d":{"ip":"198.51.100.1","port":80}}\n', "ndjson:d") == ["http://198.51.100.1:80"]


def test_lines_may_hold_json_and_html_rows_among_others() -> None:
    """A list that was concatenated from several."""
    text = (
        "198.51.100.1:80\n"
        '{"ip":"198.51.100.2","port":"81","protocols":["socks5"]}\n'
        "<tr><td>198.51.100.3</td><td>82</td><td>US</td></tr>\n"
    )

    assert _urls(text) == ["http://198.51.100.1:80", "socks5://198.51.100.2:81", "http://198.51.100.3:82"]


def _zip(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in files.items():
            archive.writestr(name, raw)
    return out.getvalue()


def test_archives_are_unpacked_and_the_format_of_each_file_is_detected() -> None:
    """gzip and zip; the format of each member is detected."""
    assert _urls(gzip.compress(b"198.51.100.1:80\n")) == ["http://198.51.100.1:80"]
    assert _urls(_zip(a=b"198.51.100.1:80\n", b=b'[{"ip":"198.51.100.2","port":81}]')) == [
        "http://198.51.100.1:80",
        "http://198.51.100.2:81",
    ]


@pytest.mark.parametrize(
    "packed", [gzip.compress(bytes(21_000_000)), _zip(a=bytes(12_000_000), b=bytes(12_000_000))], ids=["gzip", "zip"]
)
def test_a_decompression_bomb_is_too_large_before_it_is_unpacked(packed: bytes) -> None:
    """Input 20: the limit applies to the sum of all members."""
    with pytest.raises(SourceError) as caught:
        _parse(packed)

    assert caught.value.reason == "too_large"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (gzip.compress(b"198.51.100.1:80\n" * 9)[:-12], "corrupt"),
        (b"\x1f\x8bnonsense", "corrupt"),
        (b"PK\x03\x04nonsense", "corrupt"),
        (gzip.compress(gzip.compress(b"198.51.100.1:80\n")), "nested"),
        (_zip(a=_zip(b=b"198.51.100.1:80\n")), "nested"),
    ],
    ids=[
        "half a gzip",
        "no gzip",
        "no zip",
        "gzip in gzip",
        "zip in zip",
    ],  # archives contain a timestamp, which would change the default ids
)
def test_a_broken_archive_is_a_rejected_row(raw: bytes, reason: str) -> None:
    """Input 20 and I18: reported as a rejected row, never an exception."""
    assert reason in _parse(raw).rejected


def test_a_list_in_two_encodings_is_decoded() -> None:
    """Input 26: UTF-8 and Latin-1 in one file, UTF-16 in blocks."""
    mixed = "http://ü:p@198.51.100.1:80\n".encode() + "http://ü:p@198.51.100.2:80\n".encode("latin-1")
    wide = ("198.51.100.1:80\r\n" * 40_000).encode("utf-16")

    assert [proxy.username for proxy in _parse(mixed).proxies] == ["ü", "ü"]
    assert (len(_parse(wide).proxies), _parse(wide).repeated) == (1, 39_999)


def test_a_line_that_is_too_long_is_one_rejected_row_and_the_next_is_parsed() -> None:
    """Input 26: a megabyte without a line feed."""
    result = _parse(b"x" * 1_000_000 + b"\n198.51.100.1:80\n", "lines")

    assert ([proxy.url for proxy in result.proxies], dict(result.rejected)) == (
        ["http://198.51.100.1:80"],
        {"no_address": 1},
    )


def test_duplicate_rows_are_counted() -> None:
    """Duplicates are not dropped silently."""
    result = _parse("198.51.100.1:80\nHTTP://198.51.100.1:80/\n198.51.100.1:81\n")

    assert (len(result.proxies), result.repeated, result.rows) == (2, 1, 3)


def test_a_long_list_is_parsed_in_parts() -> None:
    """Input 19: only one part is in memory at a time."""
    raw = "".join(f"198.51.{number >> 8 & 255}.{number & 255}:8080\n" for number in range(65_536)).encode()

    parts = list(parse_stream("auto", io.BytesIO(raw), Options()))

    assert len(parts) > 5
    assert len(merge_results(parts).proxies) == 65_536


def test_every_reason_is_one_of_the_closed_set() -> None:
    """Content of a list never becomes the name of a counter."""
    text = "x\n999.1.1.1:80\n198.51.100.1:0\n\x1b[0m\nftp://198.51.100.1:80\nlocalhost:80\n{\n198.51.100.1:25\n"

    assert set(_parse(text, "lines").rejected) <= REJECTION_REASONS
