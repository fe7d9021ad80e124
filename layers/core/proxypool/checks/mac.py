"""HMAC-SHA256 of texts, as judge and canary use it. Pure, standard library only."""

from __future__ import annotations

import hmac
from functools import lru_cache


def mac(key: bytes, text: str) -> str:
    """The code of a text, in hexadecimal. A key is prepared once: each text then costs half as much."""
    code = _prepared(key).copy()
    code.update(text.encode())
    return code.hexdigest()


@lru_cache(8)
def _prepared(key: bytes) -> hmac.HMAC:
    return hmac.new(key, digestmod="sha256")
