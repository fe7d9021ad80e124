"""Locates exit IPs in MaxMind databases that the operator installs; without one, the judge's own data is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Country (ISO 3166 alpha-2, lower case), region (last part of ISO 3166-2) and AS number of an address; None: unknown."""

    country: str | None = None
    region: str | None = None
    asn: int | None = None


Locate = Callable[[str], Location]


@cache
def open_databases(paths: Iterable[str]) -> Locate:
    """A lookup function over database files (GeoLite2 Country, City, ASN or the same layout).

    Raises OSError or maxminddb.InvalidDatabaseError for a file that is missing or not a database.
    """
    import maxminddb

    readers = [maxminddb.open_database(path) for path in paths]

    def locate(ip: str) -> Location:
        merged: dict[str, Any] = {}
        for reader in readers:
            row = reader.get(ip)
            merged |= row if isinstance(row, dict) else {}
        return _location_from_row(merged)

    return locate


def _location_from_row(row: dict[str, Any]) -> Location:
    country = (row.get("country") or row.get("registered_country") or {}).get("iso_code")
    region = (row.get("subdivisions") or [{}])[0].get("iso_code")
    return Location(
        country=country.lower() if country else None,
        region=region.lower() if region else None,
        asn=row.get("autonomous_system_number"),
    )
