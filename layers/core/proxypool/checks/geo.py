"""Where an exit stands, by a MaxMind database that the operator adds; without one the judge's own word counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Country (ISO 3166 alpha-2, lower case), region (ISO 3166-2's last part) and AS number of an address; None: not known."""

    country: str | None = None
    region: str | None = None
    asn: int | None = None


Locate = Callable[[str], Whereabouts]


@cache
def locator(paths: Iterable[str]) -> Locate:
    """Looks addresses up in the databases (files: GeoLite2 Country, City or ASN, or any of that form).

    Raises OSError or maxminddb.InvalidDatabaseError where a file is none.
    """
    import maxminddb

    readers = [maxminddb.open_database(path) for path in paths]

    def locate(ip: str) -> Whereabouts:
        found: dict[str, Any] = {}
        for reader in readers:
            row = reader.get(ip)
            found |= row if isinstance(row, dict) else {}
        return _read(found)

    return locate


def _read(found: dict[str, Any]) -> Whereabouts:
    country = (found.get("country") or found.get("registered_country") or {}).get("iso_code")
    region = (found.get("subdivisions") or [{}])[0].get("iso_code")
    return Whereabouts(
        country=country.lower() if country else None,
        region=region.lower() if region else None,
        asn=found.get("autonomous_system_number"),
    )
