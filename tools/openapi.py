"""Writes the OpenAPI document into the package: what `manage` serves, and what generators of clients read."""

from __future__ import annotations

from pathlib import Path

from proxypool.manage import openapi

FILE = Path(__file__).parents[1] / "layers/core/proxypool" / openapi.FILE

if __name__ == "__main__":
    FILE.write_text(openapi.text(), encoding="utf-8")
    print(f"wrote {FILE.name}")
