"""Transforms: extraction of data from a page."""

from __future__ import annotations

from typing import Any

import pytest
from proxypool.jobs import transforms
from proxypool.jobs.fetch.page import Answer
from proxypool.jobs.transforms import TransformError
from proxypool.jobs.transforms.html import links

SHOP = b"""<html><body><h1> Shoes </h1><a href="/a#x">A</a><a href="https://other.example/b">B</a><a href="mailto:x@y">M</a>
<ul><li data-id="1">one</li><li data-id="2">two</li></ul></body></html>"""


def a_page(body: bytes, kind: str = "text/html; charset=utf-8") -> Answer:
    return Answer(url="https://shop.example/list", status=200, headers={"content-type": kind}, body=body)


def apply(name: str, page: Answer, **options: Any) -> Any:
    transform = transforms.find(name)
    assert transform is not None
    assert transform.check(options) == {}
    return transform.apply(page, options)


def test_html_fields_are_selected_by_css() -> None:
    fields = {"title": "h1", "first": "li@data-id", "all": ["li"], "none": ".price"}

    assert apply("html", a_page(SHOP), fields=fields, text=False) == {
        "title": "Shoes",
        "first": "1",
        "all": ["one", "two"],
        "none": None,
    }


def test_links_are_absolute_and_without_duplicates() -> None:
    assert links(a_page(SHOP)) == ["https://shop.example/a", "https://other.example/b"]
    assert apply("html", a_page(SHOP), links=True)["links"] == links(a_page(SHOP))


def test_json_is_queried_by_jmespath() -> None:
    page = a_page(b'{"items":[{"price":3},{"price":5}]}', "application/json")

    assert apply("json", page, query="items[].price") == [3, 5]
    assert apply("json", page) == {"items": [{"price": 3}, {"price": 5}]}


def test_csv_rows_are_objects_or_lists() -> None:
    page = a_page("\ufeffname;price\r\nshoe;3\r\n".encode(), "text/csv")

    assert apply("csv", page, delimiter=";") == [{"name": "shoe", "price": "3"}]
    assert apply("csv", page, delimiter=";", header=False) == [["name", "price"], ["shoe", "3"]]


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        ("Grüße".encode("latin-1"), "text/plain; charset=iso-8859-1", {"text": "Grüße"}),
        (b"\x89PNG\x00\x01", "image/png", {"base64": "iVBORwAB"}),
        (b"plain", "text/plain; charset=no-such", {"text": "plain"}),
    ],
)
def test_a_raw_body_is_text_or_base64(body: bytes, kind: str, expected: dict[str, str]) -> None:
    assert apply("raw", a_page(body, kind)) == expected


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [
        ("json", {"query": "a["}, "query"),
        ("json", {"query": 5}, "query"),
        ("json", {"other": 1}, "other"),
        ("html", {"fields": {"x": "li:::"}}, "fields.x"),
        ("html", {"fields": "h1"}, "fields"),
        ("html", {"links": "yes"}, "links"),
        ("csv", {"delimiter": ";;"}, "delimiter"),
        ("raw", {"x": 1}, "x"),
    ],
)
def test_an_invalid_option_is_named(name: str, options: dict[str, Any], field: str) -> None:
    transform = transforms.find(name)
    assert transform is not None

    assert field in transform.check(options)


def test_an_unreadable_page_has_a_typed_error() -> None:
    with pytest.raises(TransformError) as raised:
        apply("json", a_page(b"<html>"))

    assert raised.value.reason == "not_json"
