"""The OpenAPI document as part of the package: `manage` serves it, `make openapi` writes it (openapi.py)."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

OPENAPI_FILE: Final = "openapi.json"


@cache
def load_openapi() -> dict[str, Any]:
    """The document that is part of the package."""
    document: dict[str, Any] = json.loads(files("proxypool").joinpath(OPENAPI_FILE).read_text(encoding="utf-8"))
    return document
