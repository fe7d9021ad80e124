"""What the functions are told by their environment: read once, compared with template.yaml by a test.

Every field is one environment variable, named as the field in capitals. A field without a default must be set;
`""` as a default means that the function at hand does without it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache

from proxypool.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The parameters of one deployment. Defaults are the documented ones; units stand in the names."""

    # Where things are
    sources_table: str = ""
    proxies_table: str = ""
    checks_table: str = ""
    leases_table: str = ""
    state_table: str = ""
    scrape_queue_url: str = ""
    validate_queue_url: str = ""
    scrape_dead_letter_queue_url: str = ""
    validate_dead_letter_queue_url: str = ""
    event_bus: str = ""
    bodies_bucket: str = ""
    source_bucket: str = ""  # a bucket of the operator's that sources of kind s3 may name
    expire_leases_function: str = ""
    pool: str = "main"
    redis_url: str = ""  # redis:// or rediss://; several nodes are found from one (cluster mode)
    cache_user: str = ""  # IAM user of the cache; empty: no authentication by token
    cache_name: str = ""  # the name that the cache's token is signed for

    # The judge
    judge_url: str = ""  # http://host[:port]/, asked through the proxy
    judge_https_url: str = ""  # https://host[:port]/, asked through CONNECT
    judge_secret_arn: str = ""  # Secrets Manager: the key that signs answers; empty: answers are unsigned
    judge_ca_file: str = ""  # PEM file that is trusted besides the system's (the local stack's own CA)

    # Scraping
    scrape_timeout_seconds: int = 30  # the fetch in all, whatever drips
    scrape_retries: int = 2
    scrape_retry_seconds: int = 60  # doubling
    source_stale_hours: int = 24
    source_max_new: int = 5_000  # new proxies stored by one message
    source_max_new_per_day: int = 200_000  # new proxies of one source a day; more are counted and held back
    source_max_per_host: int = 50  # proxies of one host that a stranger's list brings in a day
    source_max_per_network: int = 500  # the same of one /24 (or /48)
    scrape_claim_seconds: int = 90  # how long one run has a source to itself; more than the function's time limit
    allow_loopback: bool = False  # loopback sources, proxies and judge: only the local stack says true
    allow_files: bool = False  # sources of kind `file`: only the local stack says true

    # Validation
    validate_retries: int = 1
    validate_retry_seconds: int = 30
    check_concurrency: int = 200
    check_connect_seconds: float = 5.0
    check_stage_seconds: float = 20.0
    check_total_seconds: float = 40.0
    claim_seconds: int = 150
    active_recheck_seconds: int = 600
    dead_recheck_seconds: int = 21_600
    max_age_seconds: int = 3_600
    sweep_page: int = 200
    sweep_max_proxies: int = 20_000
    pool_low_mark: int = 20

    # Leases
    lease_seconds: int = 60
    max_lease_seconds: int = 900
    max_lease_total_seconds: int = 3_600
    max_lease_count: int = 50
    owner_quota: int = 100
    journal_max: int = 200_000
    cache_loss: str = "strict"  # or `availability`: what happens after the cache was lost (DESIGN: epoch)
    expire_retry_seconds: int = 10

    # Retention
    dead_retention_days: int = 30
    check_retention_days: int = 7
    check_keep: int = 100
    check_ttl_days: int = 30
    ledger_ttl_days: int = 90
    result_ttl_seconds: int = 3_600

    def need(self, name: str) -> str:
        """The value of a text field that the caller cannot do without; raises ConfigurationError when it is empty."""
        value = getattr(self, name)
        if not isinstance(value, str) or not value:
            raise ConfigurationError(name.upper())
        return value


def read(environment: Mapping[str, str]) -> Settings:
    """Settings from an environment; raises ConfigurationError naming the variable that cannot be read."""
    values: dict[str, object] = {}
    for field in fields(Settings):
        text = environment.get(field.name.upper())
        if text is None:
            continue
        try:
            values[field.name] = _convert(text, type(field.default))
        except ValueError as error:
            raise ConfigurationError(field.name.upper()) from error
    return Settings(**values)  # type: ignore[arg-type]


@cache
def settings() -> Settings:
    """The settings of this process, read at the first call (never at import)."""
    return read(os.environ)


def _convert(text: str, kind: type) -> object:
    if kind is bool:
        if text not in ("true", "false"):
            raise ValueError(text)
        return text == "true"
    return kind(text)
