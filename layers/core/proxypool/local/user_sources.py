"""The reader's own lists: what `make up SOURCES=…` is given, and what has to be so before they are used."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from proxypool.local.process import LocalStackError

PUBLIC_JUDGE = "http://httpbin.org/get"
RULE = 'use only proxies that you own, rent, or may use in writing (README, "Open proxies and AWS\'s rules")'
FILES = ("path", "upload", "serve")  # a list at hand: read where it lies, put into the bucket, or served as a URL

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnJudge:
    """A judge that real proxies can reach: one of ours with its key, or somebody's echo service (httpbin's form).

    Without a key nothing is signed, and every verdict says so; HTTPS is then asked of the same host.
    """

    url: str
    https_url: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The sources as POST /sources takes them; `judge` None: all proxies are on loopback, as the stack's own judge is."""

    sources: Sequence[Body]
    judge: OwnJudge | None


def read_own(file: Path, environment: Mapping[str, str] = os.environ) -> Own:
    """The reader's file: a .toml of [[source]] tables, or any other file taken as one list.

    Relative paths are relative to the file. Raises LocalStackError, one line for the reader.
    """
    file = file.expanduser()
    said = _read_toml(file) if file.suffix == ".toml" else {"source": [{"path": file.name}]}
    _text_of(file)
    sources = [_absolute(source, file.parent) for source in _sources(said, file)]
    used = [source for source in sources if source.get("enabled", True)]
    if any(_is_public(source) for source in used) and said.get("acknowledge") is not True:
        raise LocalStackError(f"{file}: write `acknowledge = true` at its top when this holds: {RULE}")
    if "judge" not in said and all(_only_loopback(_list_of(source)) for source in used):
        return Own(sources=sources, judge=None)
    return Own(sources=sources, judge=_judge(said.get("judge", {}), file, environment))


def _read_toml(file: Path) -> Body:
    try:
        return tomllib.loads(_text_of(file))
    except tomllib.TOMLDecodeError as error:
        raise LocalStackError(f"{file} is not TOML: {error}") from error


def _sources(said: Body, file: Path) -> list[Body]:
    sources = said.get("source")
    if not isinstance(sources, list) or not sources or not all(isinstance(source, dict) for source in sources):
        raise LocalStackError(f"{file} has no [[source]] table")
    if unknown := said.keys() - {"source", "judge", "acknowledge"}:
        raise LocalStackError(f"{file}: {', '.join(sorted(unknown))} is unknown at its top")
    if any("acknowledge" in source for source in sources):
        raise LocalStackError(f"{file}: `acknowledge` belongs to the top, above the first [[source]]")
    return sources


def _judge(said: Any, file: Path, environment: Mapping[str, str]) -> OwnJudge:
    """The file's [judge], else the environment's, else a public echo service."""
    if not isinstance(said, dict) or said.keys() - {"url", "https_url", "key_file"}:
        raise LocalStackError(f"{file}: [judge] takes url, https_url and key_file")
    key_file = said.get("key_file") or environment.get("PROXYPOOL_JUDGE_KEY_FILE")
    return OwnJudge(
        url=said.get("url") or environment.get("PROXYPOOL_JUDGE_URL") or PUBLIC_JUDGE,
        https_url=said.get("https_url") or environment.get("PROXYPOOL_JUDGE_HTTPS_URL") or "",
        key=_text_of(file.parent / Path(key_file).expanduser()).strip() if key_file else "",
    )


def _absolute(source: Body, folder: Path) -> Body:
    files = {name: source[name] for name in FILES if isinstance(source.get(name), str)}
    return source | {name: str((folder / Path(path).expanduser()).resolve()) for name, path in files.items()}


def _is_public(source: Body) -> bool:
    return "url" in source and not _is_loopback_address(urlsplit(str(source["url"])).hostname or "")


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LocalStackError(
            f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}"
        ) from error


def _list_of(source: Body) -> str:
    """The list at hand; nothing for one on the web."""
    for name in FILES:
        if name in source:
            return _text_of(Path(source[name]))
    return str(source.get("inline", ""))


def _only_loopback(text: str) -> bool:
    """Whether a list names proxies on this machine alone: then the judge on loopback is the one that they can reach."""
    from proxypool.proxies.proxy import Protocol
    from proxypool.sources.formats import AUTO, parse

    proxies = parse(AUTO, text.encode(), default_protocol=Protocol.HTTP).proxies
    return bool(proxies) and all(_is_loopback_address(proxy.host) for proxy in proxies)


def _is_loopback_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
