"""A user's file, served over HTTP for a source with a URL."""

from __future__ import annotations

from pathlib import Path

import httpx
from proxypool.local.file_server import serve_file


def test_a_file_is_served_and_a_conditional_request_gets_304(tmp_path: Path) -> None:
    file = tmp_path / "list 1.csv"
    file.write_text("ip,port\n127.66.4.1,8080\n")

    url = serve_file(file)

    first = httpx.get(url, trust_env=False)
    second = httpx.get(url, trust_env=False, headers={"if-modified-since": first.headers["last-modified"]})
    assert first.text == file.read_text()
    assert second.status_code == 304
