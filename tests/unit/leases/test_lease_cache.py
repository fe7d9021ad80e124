"""How the cache's token is made, and what the scripts consist of."""

from __future__ import annotations

from importlib.resources import files

import pytest
from proxypool.leases.cache import PARTS, source, token

FILES = {path.name.removesuffix(".lua") for path in (files("proxypool.leases") / "lua").iterdir()}
SCRIPTS = sorted(FILES - ({part for parts in PARTS.values() for part in parts} - PARTS.keys()))


def test_the_token_is_a_signed_url_without_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ElastiCache takes as a password: host first, signed for 15 minutes; never the secret itself."""
    for name, text in {
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "AKID",
        "AWS_SECRET_ACCESS_KEY": "hush",
    }.items():
        monkeypatch.setenv(name, text)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)

    signed = token("lease", "cache-main")

    assert signed.startswith("cache-main/?")
    assert all(
        part in signed
        for part in (
            "Action=connect",
            "ResourceType=ServerlessCache",
            "User=lease",
            "X-Amz-Expires=900",
            "X-Amz-Signature=",
        )
    )
    assert "hush" not in signed


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_refuses_a_key_of_another_slot(name: str) -> None:
    """Input 63: `#!lua` makes it an error everywhere; every key is made in the head, from the pool's tag, or is the one given."""
    text, sha = source(name)

    assert text.partition("\n")[0] in ("#!lua", "#!lua flags=allow-oom")
    assert len(sha) == 40
    assert text.count("KEYS[1] ..") == (0 if name.startswith("session_") else 1)
