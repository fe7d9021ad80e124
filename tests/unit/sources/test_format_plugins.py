"""A format that somebody else wrote: a package with an entry point, found by itself. The example is that of docs/formats.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from proxypool.proxies.proxy import Protocol
from proxypool.sources import formats as registry

PAGE = Path(__file__).parents[3] / "docs" / "formats.md"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's own example, installed as pip does it: a module and a dist-info folder on the path."""
    source, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "acme_lists.py").write_text(source)
    info = tmp_path / "acme_lists-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-lists\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[proxypool.formats]\nacme = acme_lists:parse\nlines = acme_lists:parse\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.formats.cache_clear()
    yield tmp_path
    registry.formats.cache_clear()
    sys.modules.pop("acme_lists", None)


@pytest.mark.usefixtures("package")
def test_a_third_partys_format_is_found_by_its_entry_point() -> None:
    """Its rows count like ours; a reason that we do not know is `other`."""
    raw = b"host=198.51.100.1 port=80\nhost=nonsense\nhost=198.51.100.2 port=99999\n"

    parsed = registry.parse("acme", raw, default_protocol=Protocol.SOCKS5)

    assert [proxy.url for proxy in parsed.proxies] == ["socks5://198.51.100.1:80"]
    assert (parsed.format, dict(parsed.rejected)) == ("acme", {"other": 1, "port": 1})
    assert registry.is_known("acme")


@pytest.mark.usefixtures("package")
def test_ours_cannot_be_replaced() -> None:
    """A package that names its format `lines` changes nothing."""
    parsed = registry.parse("lines", b"198.51.100.1:80\n", default_protocol=Protocol.HTTP)

    assert [proxy.url for proxy in parsed.proxies] == ["http://198.51.100.1:80"]


def test_without_the_package_the_name_is_unknown() -> None:
    assert not registry.is_known("acme")
