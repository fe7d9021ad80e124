"""A name is resolved once, and all of its addresses are vetted."""

from __future__ import annotations

import asyncio

import pytest
from proxypool.errors import AddressRefused
from proxypool.network.address import FORBIDDEN_NETWORKS, Refusal
from proxypool.network.guard import resolve_vetted


def _resolve(*addresses: str, host: str = "list.example") -> tuple[str, int]:
    async def lookup(host: str, port: int) -> list[str]:
        return list(addresses)

    return asyncio.run(resolve_vetted(host, 443, allow_loopback=False, lookup=lookup))


def test_a_public_name_becomes_the_address_to_connect_to() -> None:
    """Inputs 5 and 18: the caller connects to what was vetted; IPv4 first."""
    assert _resolve("2606:4700::1111", "1.1.1.1") == ("1.1.1.1", 443)


@pytest.mark.parametrize("addresses", [("1.1.1.1", "10.0.0.1"), ("10.0.0.1",), ("1.1.1.1", "::1"), ("fe80::1%2",)])
def test_a_name_with_one_forbidden_address_is_refused(addresses: tuple[str, ...]) -> None:
    """Input 6: mixed answers are refused as a whole."""
    with pytest.raises(AddressRefused):
        _resolve(*addresses)


def test_a_name_without_an_address_is_refused() -> None:
    """An empty lookup result is an error."""
    with pytest.raises(AddressRefused) as caught:
        _resolve()

    assert caught.value.reason == "unresolved"


def test_a_literal_is_vetted_without_a_lookup() -> None:
    """Input 2."""
    with pytest.raises(AddressRefused) as caught:
        _resolve("1.1.1.1", host="127.0.0.1")

    assert caught.value.reason == "loopback"


def test_the_judge_is_refused_as_a_proxy() -> None:
    """Input 13."""
    with pytest.raises(AddressRefused) as caught:
        asyncio.run(
            resolve_vetted("judge.example", 80, allow_loopback=False, own_endpoints=frozenset({"judge.example"}))
        )

    assert caught.value.reason == "ours"


def test_a_table_without_private_networks_still_refuses_metadata_and_loopback() -> None:
    """Case 16: a source that permits private addresses passes a table without them."""
    table = tuple(entry for entry in FORBIDDEN_NETWORKS if entry[1] is not Refusal.PRIVATE)

    def resolve_or_reason(host: str) -> str:
        try:
            return asyncio.run(resolve_vetted(host, 80, allow_loopback=False, networks=table))[0]
        except AddressRefused as error:
            return error.reason

    assert [resolve_or_reason(host) for host in ("10.0.0.1", "[fd12::1]")] == ["10.0.0.1", "fd12::1"]
    assert [resolve_or_reason(host) for host in ("169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "127.0.0.1")] == [
        "link_local", "metadata", "metadata", "loopback",
    ]  # fmt: skip
