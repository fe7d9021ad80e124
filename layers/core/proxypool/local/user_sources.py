"""The user's own lists for `make up SOURCES=…`, what must be acknowledged before they are used, and the judge that checks them."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from proxypool_client import source_files
from proxypool_client.errors import SourceFileError
from proxypool_client.source_files import Entry, SourceFile, read_text

PUBLIC_JUDGE = "http://httpbin.org/get"
RULE = 'use only proxies that you own, rent, or may use in writing (README, "Open proxies and AWS\'s rules")'
_JUDGE_KEYS = frozenset({"url", "https_url", "key_file"})


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeConfig:
    """A judge that the proxies can reach: one of this project with its key, or a public echo service (httpbin's format).

    Without a key responses are unsigned, and the checks record that; HTTPS requests then go to the same host.
    """

    url: str
    https_url: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSources:
    """The sources to send to the API. `judge` is None if all proxies are on loopback: the stack's own judge checks them."""

    entries: Sequence[Entry]
    judge: JudgeConfig | None


def read_user_sources(file: Path, environment: Mapping[str, str] = os.environ) -> UserSources:
    """The sources of a .toml file, or of any other file as a single list.

    Raises SourceFileError: the file cannot be read, is not valid, or names a list on the web without `acknowledge = true`.
    """
    file = file.expanduser()
    content = source_files.read(file) if file.suffix == ".toml" else _single_list(file)
    enabled = [entry for entry in content.entries if entry.body.get("enabled", True)]
    if any(_is_remote(entry) for entry in enabled) and not content.acknowledged:
        raise SourceFileError(f"{file}: add `acknowledge = true` at the top of the file if this is true: {RULE}")
    if content.judge is None and all(_has_only_loopback(_list_text(entry)) for entry in enabled):
        return UserSources(entries=content.entries, judge=None)
    return UserSources(entries=content.entries, judge=_judge(content, file, environment))


def _single_list(file: Path) -> SourceFile:
    body = {"name": file.name, "path": str(file.resolve())}
    return SourceFile(entries=[Entry({"id": source_files.source_id({"path": body["path"]}), **body})])


def _judge(content: SourceFile, file: Path, environment: Mapping[str, str]) -> JudgeConfig:
    """The judge of the file's [judge] table, else of the environment, else a public echo service."""
    table = {} if content.judge is None else content.judge
    if not isinstance(table, Mapping) or table.keys() - _JUDGE_KEYS:
        raise SourceFileError(f"{file}: the keys of [judge] are url, https_url and key_file")
    key_file = table.get("key_file") or environment.get("PROXYPOOL_JUDGE_KEY_FILE")
    return JudgeConfig(
        url=table.get("url") or environment.get("PROXYPOOL_JUDGE_URL") or PUBLIC_JUDGE,
        https_url=table.get("https_url") or environment.get("PROXYPOOL_JUDGE_HTTPS_URL") or "",
        key=read_text(file.parent / Path(key_file).expanduser()).strip() if key_file else "",
    )


def _is_remote(entry: Entry) -> bool:
    return "url" in entry.body and not _is_loopback_address(urlsplit(str(entry.body["url"])).hostname or "")


def _list_text(entry: Entry) -> str:
    """The list's text; "" for a list that is fetched by URL or from S3."""
    path = entry.serve or entry.upload or entry.body.get("path")
    return read_text(Path(path)) if path else str(entry.body.get("inline", ""))


def _has_only_loopback(text: str) -> bool:
    """Whether all proxies of a list are on this machine: only those can reach a judge on loopback. False for an empty list."""
    from proxypool.proxies.proxy import Protocol
    from proxypool.sources.formats import AUTO, parse

    proxies = parse(AUTO, text.encode(), default_protocol=Protocol.HTTP).proxies
    return bool(proxies) and all(_is_loopback_address(proxy.host) for proxy in proxies)


def _is_loopback_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
