"""A mixed list of a million lines: CPU of the parser relative to a hand-written `split`, its correctness, and its memory."""

from __future__ import annotations

import gc
import io
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from proxypool.sources.formats import AUTO, Options, parse_stream

from tests.bench.row import Row

LINES = 1_000_000
REPEATS = 3
MEMORY_SCRIPT = """
import sys
from tests.bench.memory import peak_megabytes
from proxypool.sources.formats import Options, read
with open(sys.argv[1], "rb") as file:
    for part in read("auto", file, Options()):
        pass
print(peak_megabytes())
"""
Record = tuple[str, str, int, str, str]  # scheme, host, port, user, password
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


def measure() -> list[Row]:
    """Medians of CPU of interleaved runs over the same lines; missed and extra proxies; peak memory of a streaming process."""
    lines, truth = corpus(LINES)
    text = "\n".join(lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "list.txt")
        path.write_text(text)
        seconds: dict[str, list[float]] = {"split": [], "ours": []}
        for _ in range(REPEATS):
            seconds["split"].append(_cpu(lambda: split(text)))
            seconds["ours"].append(_cpu(lambda: _stream(path)))
        found = _records(path)
        memory = subprocess.run([sys.executable, "-c", MEMORY_SCRIPT, path], capture_output=True, text=True, check=True)
    theirs, ours = (statistics.median(seconds[name]) for name in ("split", "ours"))
    return [
        Row(name="parser, lines per second", value=round(LINES / ours), unit="lines/s"),
        Row(name="parser / split, CPU of a million mixed lines", value=round(ours / theirs, 2), unit="ratio", target=1.33,
            reason="JSON rows cost most, about 12 µs each; a faster JSON reader is untried"),
        Row(name="parser, missed", value=len(truth - found), unit="proxies", target=0),
        Row(name="parser, extra", value=len(found - truth), unit="proxies", target=0),
        Row(name="parser, peak memory", value=round(float(memory.stdout)), unit="MB", target=120),
    ]  # fmt: skip


def corpus(size: int, seed: int = 1) -> tuple[list[str], set[Record]]:
    """Lines of every layout, a tenth of them invalid, and the records in them."""
    made = random.Random(seed)
    lines, truth = [], set()
    for _ in range(size):
        line, record = _line(made)
        lines.append(line)
        if record is not None:
            truth.add(record)
    return lines, truth


def split(text: str) -> list[Record]:
    """The reference: the fastest reader of exactly these layouts in Python, without rejection reasons or encodings."""
    octets, ports = {str(number) for number in range(256)}, {str(port): port for port in range(1, 65_536)}
    schemes, name = {"http", "https", "socks4", "socks5"}, re.compile(r"(?:[a-z0-9-]+\.)+[a-z][a-z0-9-]*").fullmatch
    row, loads = re.compile(r"<td>([0-9.]+)</td><td>([0-9]{1,5})</td>").search, _json()
    out: list[Record] = []
    add, is_octets, port_of = out.append, octets.issuperset, ports.get
    for line in text.split("\n"):
        parts = line.split(":")
        count = len(parts)
        if count == 2:
            if port := port_of(parts[1]):
                four = parts[0].split(".")
                if len(four) == 4 and is_octets(four):
                    add(("", parts[0], port, "", ""))
        elif line[:1] == "{":
            fields = loads(line)
            add((fields["protocols"][0], fields["ip"], int(fields["port"]), "", ""))
        elif line[:1] == "<":
            if match := row(line):
                add(("", match[1], int(match[2]), "", ""))
        elif count == 4 and parts[1][:2] == "//" and parts[0] in schemes:
            password, _, host = parts[2].rpartition("@")
            port, four = port_of(parts[3]), host.split(".")
            if port and ((len(four) == 4 and is_octets(four)) or name(host)):
                add((parts[0], host, port, parts[1][2:], password))
        elif count == 4 and (port := port_of(parts[1])):
            four = parts[0].split(".")
            if len(four) == 4 and is_octets(four):
                add(("", parts[0], port, parts[2], parts[3]))
    return out


def _line(made: random.Random) -> tuple[str, Record | None]:
    kind, host, port = made.random(), _ip(made), made.randint(26, 65_535)
    user, password = _word(made, 6), _word(made, 10)
    if kind < 0.50:
        return f"{host}:{port}", ("http", host, port, "", "")
    if kind < 0.65:
        scheme = made.choice(("http", "https", "socks4", "socks5"))
        host = f"{_word(made, 6)}.example.net" if made.random() < 0.3 else host
        return f"{scheme}://{user}:{password}@{host}:{port}", (scheme, host, port, user, password)
    if kind < 0.75:
        return f"{host}:{port}:{user}:{password}", ("http", host, port, user, password)
    if kind < 0.85:
        return made.choice((
            "# updated 2026-01-01 10:00:00", "", host, f"999.{port}.1.2:80", f"{host}:99999", f"<b>{_word(made, 20)}</b>",
            _word(made, 30), f"{host}:", "Free proxies! join t.me/x",
        )), None  # fmt: skip
    if kind < 0.95:
        scheme = made.choice(("http", "socks5"))
        row = {"ip": host, "port": str(port), "protocols": [scheme], "country": "US", "anonymityLevel": "elite"}
        return json.dumps({**row, "upTime": round(made.random() * 100, 2)}, separators=(",", ":")), (
            scheme,
            host,
            port,
            "",
            "",
        )
    cells = "<td>US</td><td class='hm'>United States</td><td>elite proxy</td><td class='hx'>yes</td>"
    return f"<tr><td>{host}</td><td>{port}</td>{cells}</tr>", ("http", host, port, "", "")


def _ip(made: random.Random) -> str:
    return f"{made.randint(1, 223)}.{made.randint(0, 255)}.{made.randint(0, 255)}.{made.randint(1, 254)}"


def _word(made: random.Random, size: int) -> str:
    return "".join(made.choices(_LETTERS, k=size))


def _json() -> Callable[[str], dict[str, str]]:
    try:
        from orjson import loads  # type: ignore[import-not-found,unused-ignore]  # the fastest JSON reader, for the reference
    except ImportError:
        return json.loads
    return loads  # type: ignore[no-any-return,unused-ignore]


def _stream(path: Path) -> None:
    with path.open("rb") as file:
        for _ in parse_stream(AUTO, file, Options()):
            pass


def _records(path: Path) -> set[Record]:
    found = parse_stream(AUTO, io.BytesIO(path.read_bytes()), Options())
    return {
        (proxy.protocol.value, proxy.host, proxy.port, proxy.username or "", proxy.password or "")
        for part in found
        for proxy in part.proxies
    }


def _cpu(work: Callable[[], object]) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started
