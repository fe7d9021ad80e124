"""Logs: structured, masked, limited in size."""

from __future__ import annotations

import io
import json

import pytest
from proxypool.proxies.proxy import Protocol, Proxy
from proxypool.telemetry import log


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr(log.registered_handler, "stream", stream)
    return stream


def test_credentials_are_not_logged(out: io.StringIO) -> None:
    """I19, case 36."""
    log.info("proxy seen", proxy_url="socks5://u-AR:s3cret@h:80", error="GET http://u:s3cret@h/ failed", password="s3cret",
             nested={"authorization": "s3cret", "note": ["http://a:s3cret@b"]})  # fmt: skip
    line = out.getvalue()
    assert "s3cret" not in line
    assert json.loads(line)["message"] == "proxy seen"


def test_a_proxy_in_a_field_is_masked(out: io.StringIO) -> None:
    """I19: a proxy is a tuple, but not logged as one."""
    log.info("proxy seen", proxy=Proxy(Protocol.HTTP, "h.example", 80, "u", "s3cret"), several=[Proxy(Protocol.HTTP, "h.example", 80, "u", "s3cret")])  # fmt: skip
    line = out.getvalue()
    assert "s3cret" not in line
    assert "h.example:80" in line


def test_line_breaks_and_long_texts_are_one_short_line(out: io.StringIO) -> None:
    """Input 89."""
    log.info("source read", text="a\n\x1b[31mred\n" + "x" * 1_000_000)
    line = out.getvalue()
    assert line.count("\n") == 1
    assert len(line) < 3_000
