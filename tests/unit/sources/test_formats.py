"""Lists as they occur in practice: layouts, rejection reasons, and robustness against arbitrary input."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxypool.errors import AddressRefused
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.sources.formats import REJECTION_REASONS, ParseResult, formats, parse
from proxypool.sources.formats.line import parse_line


def _urls(text: str | bytes, name: str = "auto") -> list[str]:
    return [proxy.url for proxy in _parse(text, name).proxies]


def _parse(text: str | bytes, name: str = "auto") -> ParseResult:
    raw = text if isinstance(text, bytes) else text.encode()
    return parse(name, raw, default_protocol=Protocol.HTTP)


@pytest.mark.parametrize(
    ("line", "url"),
    [
        ("198.51.100.1:80", "http://198.51.100.1:80"),  # case 11: one row per layout
        ("198.51.100.1:1080@socks4", "socks4://198.51.100.1:1080"),
        ("198.51.100.1:80:u:p", "http://u:p@198.51.100.1:80"),
        ("u:p@198.51.100.1:80", "http://u:p@198.51.100.1:80"),
        ("http://198.51.100.1:80@u:p", "http://u:p@198.51.100.1:80"),
        ("198.51.100.1:80:u", "http://u:@198.51.100.1:80"),
        ("http://user:p@ss#1@198.51.100.9:8080", "http://user:p%40ss%231@198.51.100.9:8080"),  # case 9
        ("cust-x-sessid-1:p!w@pr.example.net:7777", "http://cust-x-sessid-1:p%21w@pr.example.net:7777"),  # case 12
        ("http://u:p%40ss@198.51.100.9:80", "http://u:p%40ss@198.51.100.9:80"),  # percent-encoding is decoded once
        ("198.51.100.1:80:u:p%40", "http://u:p%2540@198.51.100.1:80"),  # not in this layout: % is a character
        ("[2001:DB8::1]:80", "http://[2001:db8::1]:80"),
        ("socks5h://PR.Example.net:1080/", "socks5://pr.example.net:1080"),
        ("198.51.100.1:80  # note", "http://198.51.100.1:80"),
        ("198.51.100.1:80#Germany", "http://198.51.100.1:80"),
        ("198.51.100.1:80  // was socks5", "http://198.51.100.1:80"),
        ("198.51.100.1 8080", "http://198.51.100.1:8080"),  # columns, with each usual separator
        ("198.51.100.1;8080;US;elite", "http://198.51.100.1:8080"),
        ("198.51.100.1,8080,socks5,120", "socks5://198.51.100.1:8080"),
        ("198.51.100.1:8080|SOCKS4|DE", "socks4://198.51.100.1:8080"),
        ("198.51.100.1:8080 socks5 Germany", "socks5://198.51.100.1:8080"),
        ("| 198.51.100.1 | 8080 | US |", "http://198.51.100.1:8080"),
        ("1,198.51.100.1,8080", "http://198.51.100.1:8080"),  # a number in front
        ("socks5\t198.51.100.1\t1080", "socks5://198.51.100.1:1080"),
        ("pr.example.net;7777;US", "http://pr.example.net:7777"),
        ("u:p@198.51.100.1:80,US", "http://u:p@198.51.100.1:80"),
        ("198.51.100.1:80:u:p;w", "http://u:p%3Bw@198.51.100.1:80"),  # a separator inside a password
        (
            "u-sess-{session}-cc-{country}:p@gw.example.net:7000",
            "http://u-sess-%7Bsession%7D-cc-%7Bcountry%7D:p@gw.example.net:7000",
        ),
        ("Bücher.example:80", "http://xn--bcher-kva.example:80"),
    ],
)
def test_a_line_is_parsed_in_every_usual_layout(line: str, url: str) -> None:
    """Cases 9, 11, 12; input 18."""
    assert _urls(line) == [url]


def test_different_layouts_of_one_proxy_are_one_proxy() -> None:
    """Case 11, input 17."""
    lines = ["198.51.100.1:80:u:p", "u:p@198.51.100.1:80", "http://198.51.100.1:80@u:p", "HTTP://u:p@198.51.100.1:80/"]

    assert len(_parse("\n".join(lines)).proxies) == 1


def test_three_passwords_at_one_gateway_are_three_proxies() -> None:
    """Case 8."""
    parsed = _parse("\n".join(f"http://u:p{number}@gw.example.net:7000" for number in (1, 2, 3)))

    assert len({proxy.id for proxy in parsed.proxies}) == 3


def test_an_invalid_line_rejects_one_line_only() -> None:
    """Case 14."""
    parsed = _parse("198.51.100.1:80\n127:0:0:1:80\n198.51.100.2:80\n198.51.100.3:80\n")

    assert len(parsed.proxies) == 3
    assert parsed.rejected == {"malformed": 1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("999.1.2.3:80", "malformed"),  # case 16
        ("198.51.100.1:99999", "port"),
        ("198.51.100.1:0", "port"),
        ("198.51.100.1:25", "port_refused"),
        ("198.51.100.1:٨٠", "port"),  # input 10
        ("198.51.100.1:080", "port"),  # input 11
        ("2130706433:80", "malformed"),  # input 9
        ("localhost:80", "local_name"),
        ("gopher://198.51.100.1:80", "scheme"),
        ("http://u:p%0d%0aX@198.51.100.1:80", "credentials"),  # input 16
        ("http://u:%00@198.51.100.1:80", "credentials"),
        (f"http://u:{'x' * 256}@198.51.100.1:80", "credentials"),
        ("x" * 200 + "." + "y" * 400 + ":80", "too_long"),  # input 26
        ("x" * 70_000, "no_address"),
        (f'{{"ip": "{"x" * 70_000}"}}', "too_long"),
        ("198.51.100.1", "no_port"),
        ("198.51.100.1:", "port"),
        ("Free proxies! join t.me/x", "no_address"),
        ("198.51.100.1:80\x00", "control"),
        ("\x1b[31m198.51.100.1:80", "control"),
        ("<html>captcha</html>", "no_address"),  # input 24
    ],
)
def test_a_rejected_line_is_counted_with_its_reason(line: str, reason: str) -> None:
    """Inputs 9–11, 16, 24, 26; case 16."""
    parsed = _parse(line)

    assert (parsed.proxies, dict(parsed.rejected)) == ((), {reason: 1})


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbf198.51.100.1:80\r\n\r\n# comment\r\n// too\r\n",
        "198.51.100.1:80\n".encode("utf-16"),
        b"198.51.100.1:80\r",
        b"\t198.51.100.1:80 \xe4\n",
    ],
)
def test_byte_order_marks_line_endings_and_encodings_are_handled(raw: bytes) -> None:
    """Input 26: and blank lines and comments are not rejected rows."""
    parsed = _parse(raw)

    assert ([str(proxy) for proxy in parsed.proxies], dict(parsed.rejected)) == (["http://198.51.100.1:80"], {})


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ('{"data":[{"ip":"198.51.100.4","port":"8080","protocols":["socks5"]}]}', ["socks5://198.51.100.4:8080"]),
        ('[{"host":"198.51.100.4","port":80,"user":"u","pass":"p@"}]', ["http://u:p%40@198.51.100.4:80"]),
        ('["198.51.100.4:80","socks4://198.51.100.5:81"]', ["http://198.51.100.4:80", "socks4://198.51.100.5:81"]),
        ('[{"proxy":"http://u:p@198.51.100.4:80"}]', ["http://u:p@198.51.100.4:80"]),
        (
            '[{"ip":"198.51.100.4","port":1,"type":"HTTP, SOCKS5"}]',
            ["http://198.51.100.4:1", "socks5://198.51.100.4:1"],
        ),
        ("[2001:db8::1]:80", ["http://[2001:db8::1]:80"]),  # starts like JSON
    ],
)
def test_json_is_parsed_by_its_usual_field_names(text: str, urls: list[str]) -> None:
    """Case 15."""
    assert _urls(text) == urls


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,  # input 27: depth
        '{"ip":"198.51.100.4","ip":"198.51.100.5","port":80}',  # duplicate keys
        '[{"ip":"198.51.100.4","port":NaN}]',
        '[{"ip":"198.51.100.4","port":' + "9" * 10_000 + "}]",
    ],
)
def test_json_that_is_not_strict_is_one_rejected_row(text: str) -> None:
    """Input 27."""
    parsed = _parse(text, "json")

    assert (parsed.proxies, dict(parsed.rejected)) == ((), {"not_json": 1})


def test_json_that_is_nested_too_deeply_is_rejected() -> None:
    """Input 27: below the JSON parser's own limit."""
    parsed = _parse("[" * 40 + '{"ip":"198.51.100.4","port":80}' + "]" * 40, "json")

    assert (parsed.proxies, dict(parsed.rejected)) == ((), {"too_deep": 1})


_FRAGMENTS = st.sampled_from(
    ["198.51.100.1", ":", "80", "@", "u:p", "{", "}", "[", "]", '"', ",", "ip", "port", "<table>", "<tr>", "<td>", "</td>", "</table>",
     "\n", "\r", "\t", " ", ";", "|", "http://", "socks5", "#", "%40", "{session}", "xn--", "é", "\0", "\x1b", "٨", "//", "<html>"]
)  # fmt: skip


@given(
    st.sampled_from([*sorted(formats()), "json:a.0"]),
    st.binary(max_size=300)
    | st.lists(_FRAGMENTS, max_size=60).map("".join).map(str.encode)
    | st.lists(_FRAGMENTS, max_size=60).map(lambda pieces: gzip.compress("".join(pieces).encode(), mtime=0))
    | st.binary(max_size=100).map(lambda raw: b"PK\x03\x04" + raw)
    | st.binary(max_size=100).map(lambda raw: b"\xff\xfe" + raw),
)
def test_arbitrary_bytes_do_not_break_a_format(name: str, raw: bytes) -> None:
    """Inputs 26 and 28, I18: no exception, no more rows than the input can contain, only reasons of the closed set."""
    parsed = parse(name, raw, default_protocol=Protocol.HTTP)
    size = len(raw) if raw[:2] != b"\x1f\x8b" else 20 * 60

    assert len(parsed.proxies) * 3 <= size
    assert len({proxy.id for proxy in parsed.proxies}) == len(parsed.proxies)
    assert set(parsed.rejected) <= REJECTION_REASONS


@given(st.lists(_FRAGMENTS, max_size=12).map("".join))
def test_the_fast_path_and_parse_line_agree(line: str) -> None:
    """Splitting at colons gives the same result as `parse_line`."""
    line = line.replace("\n", "").replace("\r", "").strip()
    if line[:1] in ("", "{", "<", "#", ";") or line.startswith("//"):
        return
    try:
        expected = [parse_line(line, Protocol.HTTP)]
    except AddressRefused:
        expected = []

    assert list(_parse(line, "lines").proxies) == expected


_TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, blacklist_categories=("Cs", "Cc")), max_size=40)


@given(
    st.sampled_from(list(Protocol)),
    st.sampled_from(["198.51.100.1", "2001:db8::1", "gw.example.net", "xn--bcher-kva.example"]),
    st.integers(1, 65_535).filter(lambda port: port != 25),
    st.none() | st.tuples(_TEXTS.filter(bool), st.none() | _TEXTS),
)
def test_parsing_the_url_of_a_proxy_returns_the_same_proxy(
    protocol: Protocol, host: str, port: int, login: tuple[str, str | None] | None
) -> None:
    """Case 9, input 17: credentials are preserved byte for byte, including percent signs; the id is stable."""
    proxy = Proxy(protocol, host, port, *(login or (None, None)))

    for name in ("lines", "auto"):
        again = _parse(proxy.url, name).proxies[0]
        assert (again, again.id, again.url) == (proxy, proxy.id, proxy.url)
    as_json = json.dumps(
        [{"protocol": protocol, "host": host, "port": port, "username": proxy.username, "password": proxy.password}]
    )
    assert [parsed.id for parsed in _parse(as_json, "json").proxies] == [proxy.id]


@given(_TEXTS.filter(lambda text: text and not set(text) & set(":@ \t#") and not any(map(str.isspace, text))), _TEXTS)
def test_credentials_after_colons_are_literal(username: str, password: str) -> None:
    """Case 11: nothing is percent-encoded in host:port:user:pass."""
    if any(map(str.isspace, password)) or "@" in password:
        return
    (proxy,) = _parse(f"198.51.100.1:80:{username}:{password}", "lines").proxies

    assert (proxy.username, proxy.password) == (username, password)
