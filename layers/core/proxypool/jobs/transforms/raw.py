"""The raw page: as text if it is text, else as base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from proxypool.jobs.fetch.page import Answer


class Raw:
    """`{"text": …}` or `{"base64": …}`."""

    def check(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Rejects all options."""
        return dict.fromkeys(options, "unknown")

    def apply(self, page: Answer, options: Mapping[str, Any]) -> Any:
        """The body as text, or as base64 if it cannot be decoded."""
        text = decode_text(page)
        return {"base64": base64.b64encode(page.body).decode()} if text is None else {"text": text}


def decode_text(page: Answer) -> str | None:
    """The body decoded by the charset of its Content-Type, else as UTF-8; None if it is not text."""
    charset = page.headers.get("content-type", "").partition("charset=")[2].partition(";")[0].strip(" \"'")
    for name in (charset, "utf-8"):
        try:
            text = page.body.decode(name or "utf-8")
        except (LookupError, UnicodeDecodeError):
            continue
        return None if "\x00" in text else text
    return None


RAW = Raw()
