"""How a Lua script is assembled: its parts, and the symbolic names in them."""

from __future__ import annotations

import re

import pytest
from proxypool.leases.redis import scripts
from proxypool.leases.redis.keys import SCRIPT_ARGUMENTS, SCRIPT_CONSTANTS

FILES = {path.stem for path in scripts.LUA_FOLDER.glob("*.lua")}
SCRIPTS = sorted(
    FILES - ({part for parts in scripts.SCRIPT_FILES.values() for part in parts} - scripts.SCRIPT_FILES.keys())
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_refuses_a_key_of_another_slot(name: str) -> None:
    """Input 63: `#!lua` makes it an error on every server; all keys are made in the head from the pool's tag, or given."""
    text, sha = scripts.source(name)

    assert text.partition("\n")[0] in ("#!lua", "#!lua flags=allow-oom")
    assert len(sha) == 40
    assert text.count("KEYS[1] ..") == (0 if name.startswith("session_") else 1)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_symbolic_name_reaches_the_server(name: str) -> None:
    text, _ = scripts.source(name)

    assert not re.search(rf"\b(?:ARG|AT|{'|'.join(SCRIPT_CONSTANTS)})\.", text)


def test_a_name_becomes_an_argument_a_position_or_a_constant() -> None:
    text = scripts.substitute_names("renew", "f(ARG.owner, AT.ttl_ms, F.holders, lease[L.exit], BREAKER.half_open)")

    assert text == "f(ARGV[2], 3, 'h', lease[3], 'h')"


@pytest.mark.parametrize("text", ["ARG.colour", "AT.colour", "F.colour", "KEY.colour"])
def test_an_unknown_name_fails_the_assembly(text: str) -> None:
    with pytest.raises(KeyError, match="colour"):
        scripts.substitute_names("renew", text)


def test_every_argument_and_constant_is_used() -> None:
    """A name that no script uses would be documentation of something that does not exist."""
    sources = {path.stem: path.read_text() for path in scripts.LUA_FOLDER.glob("*.lua")}
    everything = "\n".join(sources.values())
    arguments = {
        (script, name): "\n".join(sources[part] for part in scripts.SCRIPT_FILES.get(script, (script,)))
        for script, names in SCRIPT_ARGUMENTS.items()
        for name in names
    }

    assert [key for key, text in arguments.items() if not re.search(rf"\b(?:ARG|AT)\.{key[1]}\b", text)] == []
    assert [
        f"{table}.{name}"
        for table, names in SCRIPT_CONSTANTS.items()
        for name in names
        if not re.search(rf"\b{table}\.{name}\b", everything)
    ] == []
