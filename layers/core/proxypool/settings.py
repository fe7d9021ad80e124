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
    fetch_queue_url: str = ""
    fetch_dead_letter_queue_url: str = ""
    jobs_table: str = ""
    api_url: str = ""  # this pool's own API: where fetch_page leases
    event_bus: str = ""
    bodies_bucket: str = ""
    source_bucket: str = ""  # a bucket of the operator's that sources of kind s3 may name
    expire_leases_function: str = ""
    admin_scope: str = "admin"  # of a token that may use the operator's routes
    pool: str = "main"
    redis_url: str = ""  # redis:// or rediss://; several nodes are found from one (cluster mode)
    cache_user: str = ""  # IAM user of the cache; empty: no authentication by token
    cache_name: str = ""  # the name that the cache's token is signed for

    # The judge
    judge_url: str = (
        ""  # http://host[:port]/, asked through the proxy; several by commas, `none` for other people's alone
    )
    judge_https_url: str = ""  # https://host[:port]/, asked through CONNECT; in the same order
    judge_echo_urls: str = ""  # other people's echo services (e.g. http://httpbin.org/get), by commas: never signed
    canary_urls: str = ""  # URL#SHA-256 of pages that never change, by commas, asked beside the judges' own
    geo_database: str = ""  # paths of MaxMind databases, by commas: where an exit stands
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
    check_skip: str = ""  # stages that are switched off, by commas, e.g. integrity_https,targets
    check_tls_every: int = 6  # HTTPS, integrity and targets at every so-manieth check of a steady proxy
    detect_protocols: bool = False  # a proxy that does not speak its protocol is tried with the others, once
    claim_seconds: int = 150
    active_recheck_seconds: int = 600
    dead_recheck_seconds: int = 21_600
    max_age_seconds: int = 3_600
    sweep_page: int = 200
    sweep_max_proxies: int = 20_000
    pool_low_mark: int = 20
    pool_low_filters: str = ""  # watched besides the whole pool, e.g. country=us,https=true;kind=residential
    freeze_min_asked: int = 30  # active proxies that a sweep must have asked
    freeze_percent: int = 60  # of them failed: effects of failures freeze
    thaw_percent: int = 30  # a later sweep under it ends that

    # Leases
    lease_seconds: int = 60
    max_lease_seconds: int = 900
    max_lease_total_seconds: int = 3_600
    max_lease_count: int = 50
    owner_quota: int = 100
    journal_max: int = 200_000
    breaker_failures: int = 5  # in a row, of a proxy or of a target
    breaker_seconds: int = 60
    worker_role_id: str = ""  # IAM id of the one role that may act for others (X-On-Behalf-Of)
    cache_loss: str = "strict"  # or `availability`: what happens after the cache was lost (DESIGN: epoch)
    expire_retry_seconds: int = 10

    session_idle_seconds: int = 3_600  # sliding
    session_life_seconds: int = 86_400

    # Jobs
    fetch_retries: int = 2
    fetch_retry_seconds: int = 30
    fetch_concurrency: int = 64  # pages at once in one invocation
    fetch_page_seconds: float = 30.0  # one request, redirects included
    job_run_seconds: int = 100  # all attempts of one run; below the function's time limit
    job_max_attempts: int = 5
    job_ttl_seconds: int = 86_400
    job_result_max_bytes: int = 10_000_000
    jobs_any_domain: bool = False  # fetch from domains that the operator has not named, too
    jobs_allow_http: bool = False  # and by plain http, too
    jobs_lake: bool = False  # results as NDJSON by day and host, too

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
