"""The page as it is: text where it is text, else base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from proxypool.jobs.fetch import Answer


class Raw:
    """`{"text": …}` or `{"base64": …}`."""

    def check(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """It takes no options."""
        return dict.fromkeys(options, "unknown")

    def apply(self, page: Answer, options: Mapping[str, Any]) -> Any:
        """The body."""
        text = text_of(page)
        return {"base64": base64.b64encode(page.body).decode()} if text is None else {"text": text}


def text_of(page: Answer) -> str | None:
    """The body by the charset that its header names, else as UTF-8; None where it is not text."""
    charset = page.headers.get("content-type", "").partition("charset=")[2].partition(";")[0].strip(" \"'")
    for name in (charset, "utf-8"):
        try:
            text = page.body.decode(name or "utf-8")
        except (LookupError, UnicodeDecodeError):
            continue
        return None if "\x00" in text else text
    return None


RAW = Raw()
