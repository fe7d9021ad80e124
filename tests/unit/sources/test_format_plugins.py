"""A format from an installed package, found by its entry point. The example is the one in docs/formats.md."""

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
    """The page's example, installed as pip does: a module and a dist-info folder on the path."""
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
def test_a_format_of_an_installed_package_is_found() -> None:
    """Its rows are counted like those of built-in formats; an unknown reason becomes `other`."""
    raw = b"host=198.51.100.1 port=80\nhost=nonsense\nhost=198.51.100.2 port=99999\n"

    result = registry.parse("acme", raw, default_protocol=Protocol.SOCKS5)

    assert [proxy.url for proxy in result.proxies] == ["socks5://198.51.100.1:80"]
    assert (result.format, dict(result.rejected)) == ("acme", {"other": 1, "port": 1})
    assert registry.is_known("acme")


@pytest.mark.usefixtures("package")
def test_a_built_in_format_cannot_be_replaced() -> None:
    """A package's format named `lines` is ignored."""
    result = registry.parse("lines", b"198.51.100.1:80\n", default_protocol=Protocol.HTTP)

    assert [proxy.url for proxy in result.proxies] == ["http://198.51.100.1:80"]


def test_without_the_package_the_name_is_unknown() -> None:
    assert not registry.is_known("acme")
