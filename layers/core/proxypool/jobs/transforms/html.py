"""HTML by CSS selectors: fields, links, text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from proxypool.jobs.fetch.page import Answer
from proxypool.jobs.transforms import TransformError
from proxypool.jobs.transforms.raw import decode_text


class Html:
    """Options: `fields` {name: selector, `selector@attribute` for an attribute, a list `[selector]` for all matches},
    `links` and `text` (true to include them).
    """

    def check(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Validates the options."""
        errors = {name: "unknown" for name in options if name not in ("fields", "links", "text")}
        for name in ("links", "text"):
            if not isinstance(options.get(name, False), bool):
                errors[name] = "must be boolean"
        fields = options.get("fields", {})
        if not isinstance(fields, dict):
            return errors | {"fields": "must be an object"}
        empty = LexborHTMLParser("<html></html>")
        for name, expression in fields.items():
            try:
                empty.css(_parse_expression(expression)[0])
            except (SelectolaxError, ValueError, TypeError):
                errors[f"fields.{name}"] = "is not a CSS selector"
        return errors

    def apply(self, page: Answer, options: Mapping[str, Any]) -> Any:
        """The fields by name, with `links` and `text` if requested; raises TransformError `not_html`."""
        text = decode_text(page)
        if text is None:
            raise TransformError("not_html")
        tree = LexborHTMLParser(text)
        out = {name: _field(tree, expression) for name, expression in options.get("fields", {}).items()}
        if options.get("links"):
            out["links"] = links(page)
        if options.get("text") and tree.body is not None:
            out["text"] = tree.body.text(separator=" ", strip=True)
        return out


def links(page: Answer) -> list[str]:
    """The absolute URLs of all links, without duplicates and fragments; http and https only."""
    text = decode_text(page)
    if text is None:
        return []
    urls: dict[str, None] = {}
    for node in LexborHTMLParser(text).css("a[href]"):
        try:
            url = urljoin(page.url, (node.attributes.get("href") or "").strip()).partition("#")[0]
            if urlsplit(url).scheme in ("http", "https"):
                urls[url] = None
        except ValueError:
            continue
    return list(urls)


def _field(tree: LexborHTMLParser, expression: Any) -> Any:
    selector, attribute, many = _parse_expression(expression)
    nodes = tree.css(selector)
    values = [node.attributes.get(attribute) if attribute else node.text(strip=True) for node in nodes]
    return values if many else next(iter(values), None)


def _parse_expression(expression: Any) -> tuple[str, str, bool]:
    """Returns (selector, attribute or "", True for all matches)."""
    many = isinstance(expression, list)
    text = expression[0] if many else expression
    if not isinstance(text, str) or not text.strip():
        raise ValueError(expression)
    selector, _, attribute = text.partition("@")
    return selector, attribute, many


HTML = Html()
