"""The list of proxies: pages, filters, and what is wrong with a query."""

from __future__ import annotations

import pytest
from proxypool.proxies.proxy import Anonymity, Protocol, Proxy

from tests.support.admin import Admin


def test_proxies_are_listed_page_by_page_each_once(admin: Admin) -> None:
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


def test_filters_are_facts_of_the_proxies(admin: Admin) -> None:
    first, second = admin.add(Proxy(Protocol.HTTP, "8.8.8.8", 80), Proxy(Protocol.SOCKS5, "8.8.4.4", 80))
    admin.check(first, anonymity=Anonymity.ELITE, country="de", exit_ip="8.8.8.8")

    def found(**query: str) -> list[str]:
        return [proxy["id"] for proxy in admin("GET /proxies", query=query)[1]["proxies"]]

    assert found(anonymity="elite") == found(country="de") == found(status="active") == [first]
    assert found(protocol="socks5") == found(status="unchecked") == [second]
    assert found(anonymity="anonymous") == found(source="other") == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("limit", "0"), ("limit", "1001"), ("limit", "1e3"), ("limit", "٣"), ("limit", "true"), ("limit", "007"),
     ("next", "x}"), ("status", "gone"), ("country", "DE"), ("colour", "red")],
)  # fmt: skip
def test_a_wrong_query_parameter_is_named(admin: Admin, name: str, value: str) -> None:
    """Inputs 55, 56, 63."""
    status, problem = admin("GET /proxies", query={name: value})

    assert status == 422
    assert [error["field"] for error in problem["errors"]] == [name]
