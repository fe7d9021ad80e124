"""HTML by CSS selectors: fields, links, text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from proxypool.jobs.fetch.page import Answer
from proxypool.jobs.transforms import TransformError
from proxypool.jobs.transforms.raw import text_of


class Html:
    """Options: `fields` {name: selector, `selector@attribute` for an attribute, a list `[selector]` for all that match},
    `links` and `text` (true for them).
    """

    def check(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Every selector must be one."""
        wrong = {name: "unknown" for name in options if name not in ("fields", "links", "text")}
        for name in ("links", "text"):
            if not isinstance(options.get(name, False), bool):
                wrong[name] = "must be boolean"
        fields = options.get("fields", {})
        if not isinstance(fields, dict):
            return wrong | {"fields": "must be an object"}
        empty = LexborHTMLParser("<html></html>")
        for name, said in fields.items():
            try:
                empty.css(_parts(said)[0])
            except (SelectolaxError, ValueError, TypeError):
                wrong[f"fields.{name}"] = "is no CSS selector"
        return wrong

    def apply(self, page: Answer, options: Mapping[str, Any]) -> Any:
        """The fields by name, with `links` and `text` where asked; raises TransformError `not_html`."""
        text = text_of(page)
        if text is None:
            raise TransformError("not_html")
        tree = LexborHTMLParser(text)
        out = {name: _field(tree, said) for name, said in options.get("fields", {}).items()}
        if options.get("links"):
            out["links"] = links(page)
        if options.get("text") and tree.body is not None:
            out["text"] = tree.body.text(separator=" ", strip=True)
        return out


def links(page: Answer) -> list[str]:
    """The page's links in full, each once, without fragments; http and https only."""
    text = text_of(page)
    if text is None:
        return []
    found: dict[str, None] = {}
    for node in LexborHTMLParser(text).css("a[href]"):
        try:
            url = urljoin(page.url, (node.attributes.get("href") or "").strip()).partition("#")[0]
            if urlsplit(url).scheme in ("http", "https"):
                found[url] = None
        except ValueError:
            continue
    return list(found)


def _field(tree: LexborHTMLParser, said: Any) -> Any:
    selector, attribute, many = _parts(said)
    nodes = tree.css(selector)
    values = [node.attributes.get(attribute) if attribute else node.text(strip=True) for node in nodes]
    return values if many else next(iter(values), None)


def _parts(said: Any) -> tuple[str, str, bool]:
    """(selector, attribute or "", whether all that match are wanted)."""
    many = isinstance(said, list)
    text = said[0] if many else said
    if not isinstance(text, str) or not text.strip():
        raise ValueError(said)
    selector, _, attribute = text.partition("@")
    return selector, attribute, many


HTML = Html()
