"""GET /proxies: pages, filters and validation."""

from __future__ import annotations

import pytest
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy

from tests.support.admin import Admin


def test_pages_contain_each_proxy_once(admin: Admin) -> None:
    ids = admin.add(*(Proxy(Protocol.HTTP, f"8.8.8.{number}", 80) for number in range(1, 24)))

    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        query = {"limit": "5"} | ({"next": cursor} if cursor else {})
        _, page = admin("GET /proxies", query=query)
        assert len(page["proxies"]) <= 5
        seen += [proxy["id"] for proxy in page["proxies"]]
        cursor = page["next"]

    assert sorted(seen) == sorted(ids)


def test_proxies_are_filtered_by_their_facts(admin: Admin) -> None:
    first, second = admin.add(Proxy(Protocol.HTTP, "8.8.8.8", 80), Proxy(Protocol.SOCKS5, "8.8.4.4", 80))
    admin.check(first, anonymity=Anonymity.ELITE, country="de", exit_ip="8.8.8.8")

    def listed(**query: str) -> list[str]:
        return [proxy["id"] for proxy in admin("GET /proxies", query=query)[1]["proxies"]]

    assert listed(anonymity="elite") == listed(country="de") == listed(status="active") == [first]
    assert listed(protocol="socks5") == listed(status="unchecked") == [second]
    assert listed(anonymity="anonymous") == listed(source="other") == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("limit", "0"), ("limit", "1001"), ("limit", "1e3"), ("limit", "٣"), ("limit", "true"), ("limit", "007"),
     ("next", "x}"), ("status", "gone"), ("country", "DE"), ("colour", "red")],
)  # fmt: skip
def test_an_invalid_query_parameter_is_named(admin: Admin, name: str, value: str) -> None:
    """Inputs 55, 56, 63."""
    status, problem = admin("GET /proxies", query={name: value})

    assert status == 422
    assert [error["field"] for error in problem["errors"]] == [name]
