"""Writes the parameters of each environment in samconfig.toml as JSON, parsed by SAM's own code (run it with .venv-tools).

First it passes difficult overrides through SAM's parser, as command-line arguments and as a list: they must not be changed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from samcli.cli.types import CfnParameterOverridesType  # type: ignore[import-not-found]
from samcli.lib.config.file_manager import TomlFileManager  # type: ignore[import-not-found]

DIFFICULT = (
    "sweep_page=100,owner_quota=50",
    "pool_low_filters=country=us:https=true+kind=residential,check_skip=integrity_https+targets",
    "judge_echo_urls=http://a.example/get%3Fx%3D1%26y%3D2+http://b.example:8080/get,admin_scope=proxypool/admin",
    f"canary_urls=https://a.example/robots.txt#{'0' * 64}+https://b.example/%2C%20%22%27%5C#{'f' * 64}",
    "geo_database=/opt/geo/GeoLite2-City.mmdb+/opt/geo/GeoLite2-ASN.mmdb,check_connect_seconds=2.5",
)


def parsed(given: object) -> dict[str, str]:
    """Parameters as `sam deploy` passes them to CloudFormation."""
    found: dict[str, str] = CfnParameterOverridesType().convert(given, None, None)
    return found


def check_parser() -> None:
    """Exits with a message if SAM's parser changes an override."""
    for text in DIFFICULT:
        words = ["Pool=dev", f"Overrides={text}", "ApiThrottle=200,400"]
        expected = {"Pool": "dev", "Overrides": text, "ApiThrottle": "200,400"}
        for given in (words, tuple(words), " ".join(words)):
            if parsed(given) != expected:
                sys.exit(f"SAM's parser turns {given!r} into {parsed(given)!r}")


def parameters(samconfig: Path) -> dict[str, dict[str, str]]:
    """The parameters by environment."""
    body = TomlFileManager.read(samconfig)
    return {
        name: parsed(environment["deploy"]["parameters"].get("parameter_overrides", ""))
        for name, environment in body.items()
        if isinstance(environment, dict) and "deploy" in environment
    }


if __name__ == "__main__":
    check_parser()
    target = Path(sys.argv[1])
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(parameters(Path("samconfig.toml")), indent=1))
