"""Settings: read once, typed, and clear about what cannot be read."""

from __future__ import annotations

import pytest
from proxypool.errors import ConfigurationError
from proxypool.settings import Settings, read


def test_each_field_is_read_in_its_own_type() -> None:
    found = read({"LEASE_SECONDS": "5", "ALLOW_LOOPBACK": "true", "CHECK_CONNECT_SECONDS": "0.5", "POOL": "other"})
    assert (found.lease_seconds, found.allow_loopback, found.check_connect_seconds, found.pool) == (
        5,
        True,
        0.5,
        "other",
    )


@pytest.mark.parametrize(("name", "value"), [("LEASE_SECONDS", "soon"), ("ALLOW_LOOPBACK", "yes")])
def test_what_cannot_be_read_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        read({name: value})


def test_a_needed_value_that_is_empty_names_its_variable() -> None:
    with pytest.raises(ConfigurationError, match="PROXIES_TABLE"):
        Settings().need("proxies_table")
