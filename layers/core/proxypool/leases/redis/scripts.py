"""Lua scripts: reads the files in lua/, joins the parts of a script and replaces its symbolic names.

A source says `ARG.owner`, `F.holders` or `AT.rest`; the server gets `ARGV[2]`, `'h'` and `28`, so that a name costs nothing
at run time. The tables of names are in keys.py.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Final

from proxypool.leases.redis.keys import SCRIPT_ARGUMENTS, SCRIPT_CONSTANTS

LUA_FOLDER = Path(__file__).parent / "lua"
SCRIPT_FILES: Final = {
    "acquire": ("head", "acquire", "choose", "grant"),
    "session_get": ("session_get",),
    "session_put": ("session_put",),
}  # the files of a script, where these are not the head and its own
_NAME: Final = re.compile(rf"\b(ARG|AT|{'|'.join(SCRIPT_CONSTANTS)})\.(\w+)")


@cache
def source(script: str) -> tuple[str, str]:
    """A script's complete text and its SHA-1, as EVALSHA takes it; raises KeyError for a name that no table has.

    The text begins with the script's own first line: `#!lua` makes a key of another slot an error on every server.
    """
    texts = {
        name: (LUA_FOLDER / f"{name}.lua").read_text(encoding="utf-8")
        for name in SCRIPT_FILES.get(script, ("head", script))
    }
    shebang, _, texts[script] = texts[script].partition("\n")
    text = substitute_names(script, "\n".join((shebang, *texts.values())))
    return text, sha1(text.encode(), usedforsecurity=False).hexdigest()


def substitute_names(script: str, text: str) -> str:
    """The text with each symbolic name replaced by its value in this script."""
    positions = {name: number for number, name in enumerate(SCRIPT_ARGUMENTS.get(script, ()), start=1)}
    tables = {
        **SCRIPT_CONSTANTS,
        "ARG": {name: f"ARGV[{number}]" for name, number in positions.items()},
        "AT": {name: str(number) for name, number in positions.items()},
    }
    return _NAME.sub(lambda match: tables[match[1]][match[2]], text)
