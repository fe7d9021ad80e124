"""Writes the OpenAPI document, which `manage` serves, into the package."""

from __future__ import annotations

from pathlib import Path

from proxypool.manage import document, openapi

FILE = Path(__file__).parents[1] / "layers/core/proxypool" / document.OPENAPI_FILE

if __name__ == "__main__":
    FILE.write_text(openapi.document_text(), encoding="utf-8")
    print(f"wrote {FILE.name}")
