"""A file served as the URL of a source."""

from __future__ import annotations

from pathlib import Path

import httpx
from proxypool.local import lists


def test_a_file_is_served_as_the_url_of_its_source(tmp_path: Path) -> None:
    """And who has it already is told so."""
    (tmp_path / "list 1.csv").write_text("ip,port\n127.66.4.1,8080\n")

    source = lists.served({"id": "a", "serve": str(tmp_path / "list 1.csv")})

    assert (source["id"], source["allow_http"], "serve" in source) == ("a", True, False)
    first = httpx.get(source["url"], trust_env=False)
    again = httpx.get(source["url"], trust_env=False, headers={"if-modified-since": first.headers["last-modified"]})
    assert first.text.startswith("ip,port")
    assert again.status_code == 304
    assert lists.served({"id": "b", "inline": "x"}) == {"id": "b", "inline": "x"}
