"""The table of lease filters: what each row stores in a ready member and requires of it, and the layout that follows."""

from __future__ import annotations

import pytest
from proxypool.config.settings import Settings
from proxypool.http.web import Field
from proxypool.leases import api, filters
from proxypool.leases.filters import (
    FILTERS,
    LAYOUT_VERSION,
    Compare,
    Filter,
    Need,
    layout_version,
    ready_member,
    request_needs,
)
from proxypool.leases.pool import Request
from proxypool.leases.redis.keys import MEMBER_ID
from proxypool.proxies.proxy import Kind

from tests.support.lease_filters import EXAMPLES
from tests.support.leases import a_record

COLOUR = Filter(name="colour", key="z", field=Field(kind=str), values=lambda record: ("blue",))


def test_a_filter_is_a_field_of_the_api_an_attribute_of_a_request_and_an_example_of_the_tests() -> None:
    names = [row.name for row in FILTERS]

    assert set(names) <= set(Request.__slots__)
    assert set(names) <= api.lease_fields(Settings()).keys()
    assert [example.name for example in EXAMPLES] == names


def test_a_key_is_one_letter_and_belongs_to_one_filter() -> None:
    keys = [row.key for row in FILTERS if row.key]

    assert all(len(key) == 1 and key.isalpha() for key in keys)
    assert len(set(keys)) == len(keys)


def test_a_member_has_its_layout_its_proxy_its_exit_and_the_values_of_the_filters() -> None:
    record = a_record(1, region="by", kind=Kind.MOBILE, tags=frozenset({"b", "a"}), sources=frozenset({"s1"}))

    text = ready_member(record)

    assert text == f"{LAYOUT_VERSION}{record.id}127.1.0.1|h1|rby|km|l50|v1|ta|tb|ss1|"
    assert text[MEMBER_ID] == record.id


def test_a_request_without_filters_needs_nothing_of_a_member() -> None:
    assert request_needs(Request(ttl_seconds=60)) == []


def test_each_item_of_a_list_is_a_need_of_its_own() -> None:
    wanted = Request(ttl_seconds=60, tags=("a", "b"), https=True, max_latency_ms=100, kind=Kind.MOBILE)

    assert request_needs(wanted) == ["|h1|", "|km|", "l100", "|ta|", "|tb|"]


@pytest.mark.parametrize(
    ("values", "is_fit"),
    [("l50|", True), ("l49|", True), ("l51|", False), ("h1|", False), ("", False)],
    ids=["equal", "below", "above", "of an older layout", "no values"],
)
def test_a_number_fits_up_to_its_limit_and_not_where_it_is_missing(values: str, is_fit: bool) -> None:
    need = Need(key="l", value="50", compare=Compare.AT_MOST)

    assert need.fits(f"{LAYOUT_VERSION}{'0' * 20}127.0.0.1|{values}") is is_fit


def test_the_layout_is_another_one_for_each_other_set_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """It need not be incremented by hand; the order of the rows, and filters without a stored value, do not matter."""
    renamed = tuple(row if row.name != "region" else Filter(name="area", key="r", field=row.field) for row in FILTERS)
    stored = [row for row in FILTERS if row.key]

    assert layout_version((*FILTERS, COLOUR)) != LAYOUT_VERSION
    assert layout_version(renamed) != LAYOUT_VERSION
    assert len({layout_version(stored[:number]) for number in range(len(stored))}) == len(stored)
    assert layout_version(reversed(FILTERS)) == layout_version(stored) == LAYOUT_VERSION
    monkeypatch.setattr(filters, "FILTERS", (*FILTERS, COLOUR))
    assert ready_member(a_record(1)).endswith("|zblue|")
