"""The table of settings: name, default, range, unit and description of each. Read once per process.

A field made by `_environment` has a separate environment variable, because the template sets its value (a table, a queue, a URL). All
others are settings of the deployment: the template passes its parameter `Overrides` to each function as one variable. The
operator's settings (`PATCH /settings`: pause, quotas, target rules) are not here: they are data, changed without a deploy.

`make configuration` writes docs/configuration.md and the pattern of the parameter from this table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, partial
from typing import Any, Final

from proxypool.config.overrides import SettingSpec, Value, parse, serialize
from proxypool.errors import ConfigurationError

OVERRIDES: Final = "OVERRIDES"
_ROW: Final = "setting"
_DAY: Final = 86_400
_CANARY_URL: Final = "https?://[^# ]+#[0-9a-fA-F]{64}"
_URL: Final = "http://[^# ]+"


def _environment(default: str = "") -> Any:
    return field(default=default)


def _setting(section: str, default: Value, doc: str, **row: Any) -> Any:
    return field(default=default, metadata={_ROW: SettingSpec(section=section, default=default, doc=doc, **row)})


def _number(section: str, default: float, low: float, high: float, unit: str, doc: str) -> Any:
    return _setting(section, default, doc, low=low, high=high, unit=unit)


_scrape = partial(_number, "Scraping")
_check = partial(_number, "Validation")
_lease = partial(_number, "Leases and sessions")
_job = partial(_number, "Jobs")
_keep = partial(_number, "Retention")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)  # the cold start of `lease` pays for the rest
class Settings:
    """The settings of one deployment. A text without a default is "" in functions that do not need it."""

    # fmt: off
    sources_table: str = _environment()
    proxies_table: str = _environment()
    checks_table: str = _environment()
    leases_table: str = _environment()
    state_table: str = _environment()
    jobs_table: str = _environment()
    scrape_queue_url: str = _environment()
    validate_queue_url: str = _environment()
    fetch_queue_url: str = _environment()
    event_bus: str = _environment()
    bodies_bucket: str = _environment()
    source_bucket: str = _environment()  # the operator's own bucket, for sources of kind s3
    expire_leases_function: str = _environment()
    api_url: str = _environment()  # URL of the API, where fetch_page leases
    worker_role_id: str = _environment()  # IAM id of the one role that may act for other owners (X-On-Behalf-Of)
    pool: str = _environment("main")
    redis_url: str = _environment()  # redis:// or rediss://; the other nodes of a cluster are discovered
    cache_user: str = _environment()  # IAM user of the cache; "": no authentication by token
    cache_name: str = _environment()  # the name that the cache's token is signed for
    judge_url: str = _environment()  # http:// URLs by commas; `none`: judge_echo_urls only
    judge_https_url: str = _environment()  # the same judges by https://, in the same order
    judge_secret_arn: str = _environment()  # Secrets Manager: the key that signs answers; "": answers are unsigned

    scrape_timeout_seconds: int = _scrape(30, 1, 300, "seconds",
        "Time limit of one whole fetch of a list, redirects included.")
    scrape_retries: int = _scrape(2, 0, 2, "retries",
        "Retries of a scrape that failed for a transient reason (the queue delivers a message 3 times).")
    scrape_retry_seconds: int = _scrape(60, 0, 3_600, "seconds",
        "Backoff before the first retry; it doubles with each further one.")
    scrape_claim_seconds: int = _scrape(90, 2, 43_200, "seconds",
        "How long one run has a source to itself; longer than the function's time limit, shorter than its queue's "
        "visibility timeout.")
    source_stale_hours: int = _scrape(24, 1, 8_760, "hours",
        "A source without results for this long is reported as stale.")
    source_max_new: int = _scrape(5_000, 1, 100_000, "proxies",
        "New proxies stored per message; a longer list continues in further messages.")
    source_max_new_per_day: int = _scrape(200_000, 1, 10_000_000, "proxies",
        "New proxies of one source per day; more are counted and wait for the next day.")
    source_max_per_host: int = _scrape(50, 1, 65_535, "proxies",
        "Proxies of one host that a list behind a URL adds per day, unless its source expects one network.")
    source_max_per_network: int = _scrape(500, 1, 10_000_000, "proxies",
        "Proxies of one /24 (or /48) that such a list adds per day.")
    allow_files: bool = _setting("Scraping", False, "Allow sources of kind `file`; for the local stack only.")

    validate_retries: int = _check(1, 0, 2, "retries",
        "Retries of a check that failed on our side (the queue delivers a message 3 times).")
    validate_retry_seconds: int = _check(30, 0, 3_600, "seconds", "Backoff before that retry.")
    check_concurrency: int = _check(200, 1, 800, "checks",
        "Concurrent checks per invocation (a Lambda environment has 1,024 file descriptors).")
    check_connect_seconds: float = _check(5.0, 0.1, 60, "seconds", "Timeout for connecting to a proxy.")
    check_stage_seconds: float = _check(20.0, 0.1, 120, "seconds", "Timeout of one stage of a check.")
    check_total_seconds: float = _check(40.0, 0.1, 300, "seconds", "Timeout of all stages of a check together.")
    check_skip: tuple[str, ...] = _setting("Validation", (),
        "Stages of a check that are skipped, e.g. `integrity_https+targets`.", pattern="[a-z_]+")
    check_tls_every: int = _check(6, 1, 1_000, "checks",
        "HTTPS, integrity and target rules run on every Nth check of a stable proxy.")
    detect_protocols: bool = _setting("Validation", False,
        "Try the other protocols, once, with a proxy that does not speak the one of its list.")
    claim_seconds: int = _check(150, 1, 3_600, "seconds",
        "How long a proxy is claimed by the invocation that checks it; at least 30 s longer than the function's "
        "time limit.")
    active_recheck_seconds: int = _check(600, 1, 604_800, "seconds", "Time between two checks of an active proxy.")
    dead_recheck_seconds: int = _check(21_600, 1, 604_800, "seconds",
        "Time to the next check of a dead proxy; it doubles up to 7 days.")
    max_age_seconds: int = _check(3_600, 1, 604_800, "seconds", "A proxy whose last check is older is not leased.")
    sweep_page: int = _check(200, 1, 1_000, "proxies", "Proxies that a sweep reads per page.")
    sweep_max_proxies: int = _check(20_000, 1, 1_000_000, "proxies",
        "Proxies that one sweep enqueues at most; it is skipped while the queue holds as many messages.")
    pool_low_mark: int = _check(20, 0, 1_000_000, "proxies",
        "Fewer ready proxies publish `proxy.pool_low` and raise the alarm PoolIsLow.")
    pool_low_filters: tuple[str, ...] = _setting("Validation", (),
        "Lease filters for which `proxy.pool_low` is published besides the whole pool; `:` between conditions, "
        "e.g. `country=us:https=true+kind=residential`.")
    freeze_min_asked: int = _check(30, 1, 1_000_000, "proxies",
        "Active proxies that a sweep must have checked before it can freeze scores.")
    freeze_percent: int = _check(60, 1, 101, "percent",
        "Share of failed checks at which failures stop having effects; 101 never freezes.")
    thaw_percent: int = _check(30, 0, 100, "percent", "A later sweep with a smaller share ends the freeze.")
    judge_echo_urls: tuple[str, ...] = _setting("Validation", (),
        "Echo services of other people, e.g. `http://httpbin.org/get`; their verdicts are unsigned.", pattern=_URL)
    canary_urls: tuple[str, ...] = _setting("Validation", (),
        "Pages that never change, as `URL#SHA-256`, fetched besides the judges' own canary.",
        pattern=_CANARY_URL)
    geo_database: tuple[str, ...] = _setting("Validation", (),
        "Paths of MaxMind databases in a layer; without one, an exit's location is what the judge sees.")
    judge_ca_file: str = _setting("Validation", "",
        "Path of a PEM file trusted besides the system's certificate authorities; for the local stack.")

    lease_seconds: int = _lease(60, 1, 900, "seconds", "Duration of a lease whose request names none.")
    max_lease_seconds: int = _lease(900, 1, 900, "seconds", "Maximum duration of a lease, and of one renewal.")
    max_lease_total_seconds: int = _lease(3_600, 1, _DAY, "seconds",
        "Maximum duration of a lease with all its renewals.")
    max_lease_count: int = _lease(50, 1, 50, "leases", "Maximum leases per request.")
    owner_quota: int = _lease(100, 1, 100_000, "leases", "Maximum open leases per owner.")
    journal_max: int = _lease(200_000, 110_000, 10_000_000, "entries",
        "No leases are granted while the journal holds more undrained entries; the alarm JournalIsLong fires at "
        "100,000.")
    breaker_failures: int = _lease(5, 1, 1_000, "failures",
        "Consecutive failures, of a proxy or of a target, that open its circuit breaker.")
    breaker_seconds: int = _lease(60, 1, 86_400, "seconds", "How long a circuit breaker stays open.")
    cache_loss: str = _setting("Leases and sessions", "strict",
        "After a loss of the cache, lease again when every old lease has expired (`strict`) or at once "
        "(`availability`).", choices=("strict", "availability"))
    expire_retry_seconds: int = _lease(10, 0, 120, "seconds", "Wait before expire_leases retries, once.")
    session_idle_seconds: int = _lease(3_600, 1, _DAY, "seconds", "A session ends this long after its last use.")
    session_life_seconds: int = _lease(_DAY, 1, 604_800, "seconds", "A session ends this long after its first use.")
    admin_scope: str = _setting("API", "admin",
        "Scope of a token that may use the operator's routes, e.g. `proxypool/admin`.", pattern="[!-~]+")
    allow_loopback: bool = _setting("API", False,
        "Allow loopback sources, proxies and judges, and requests without an identity; for the local stack only.")

    jobs_any_domain: bool = _setting("Jobs", False, "Let jobs fetch from domains that the operator has not allowed.")
    jobs_allow_http: bool = _setting("Jobs", False, "Let jobs fetch such domains by plain HTTP, too.")
    jobs_lake: bool = _setting("Jobs", False, "Also write results as NDJSON by day and host, for Athena.")
    job_max_attempts: int = _job(5, 1, 20, "requests", "Maximum requests per run of a job, each through another exit.")
    job_run_seconds: int = _job(100, 1, 890, "seconds", "Time limit of one run of a job; shorter than the function's.")
    job_ttl_seconds: int = _job(_DAY, 60, 2_592_000, "seconds", "How long a job and its result are kept.")
    job_result_max_bytes: int = _job(10_000_000, 1_000, 100_000_000, "bytes", "Maximum size of a result as JSON.")
    fetch_concurrency: int = _job(64, 1, 400, "pages", "Concurrent pages per invocation.")
    fetch_page_seconds: float = _job(30.0, 1, 300, "seconds", "Time limit of one request, redirects included.")
    fetch_retries: int = _job(2, 0, 5, "retries",
        "Retries of a job that failed on our side (the queue delivers a message 6 times).")
    fetch_retry_seconds: int = _job(30, 0, 3_600, "seconds",
        "Backoff before the first retry; it doubles with each further one.")

    # A list may add a removed proxy again, which is then removed after this many days at the earliest; minimum 7.
    dead_retention_days: int = _keep(30, 7, 3_650, "days", "A proxy that was dead for this long is removed.")
    check_retention_days: int = _keep(7, 1, 365, "days",
        "A check that is older is deleted, unless it is one of the newest `check_keep` of its proxy.")
    check_keep: int = _keep(100, 1, 10_000, "checks", "Newest checks of a proxy that are kept until `check_ttl_days`.")
    check_ttl_days: int = _keep(30, 1, 365, "days", "How long any check is kept.")
    ledger_ttl_days: int = _keep(90, 1, 3_650, "days", "How long ended leases stay in the ledger.")
    result_ttl_seconds: int = _keep(3_600, 1, 604_800, "seconds", "How long the result of a task's run is kept.")
    # fmt: on

    def need(self, name: str) -> str:
        """The value of a required text field; raises ConfigurationError if it is empty."""
        value = getattr(self, name)
        if not isinstance(value, str) or not value:
            raise ConfigurationError(name.upper())
        return value


SETTING_SPECS: Final[Mapping[str, SettingSpec]] = {
    item.name: item.metadata[_ROW] for item in fields(Settings) if item.metadata
}
"""The settings that `Overrides` can set."""
ENVIRONMENT_FIELDS: Final = tuple(item.name for item in fields(Settings) if not item.metadata)
"""The fields that have environment variables of their own."""


def overrides(**values: Value) -> str:
    """The text of `Overrides` for these settings. Raises KeyError for an unknown name."""
    return serialize({name: value for name, value in values.items() if SETTING_SPECS[name]})


def read_environment(environment: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """Reads settings from environment variables; also returns a message for each override that is ignored in favor of the default."""
    values, problems = parse(environment.get(OVERRIDES, ""), SETTING_SPECS)
    given: dict[str, Any] = {
        name: environment[name.upper()] for name in ENVIRONMENT_FIELDS if name.upper() in environment
    }
    return Settings(**given, **values), problems  # type: ignore[arg-type]


@cache
def settings() -> Settings:
    """The settings of this process, read on the first call (never at import)."""
    config, problems = read_environment(os.environ)
    report_ignored(problems)
    return config


def report_ignored(problems: Iterable[str]) -> None:
    """Logs and counts each ignored setting; the function continues with the default."""
    for problem in problems:
        from proxypool.telemetry import Metric, count, flush, log  # lazy: not part of the cold start of `lease`

        log.error("setting ignored, the default is used", problem=problem)
        count(Metric.SETTINGS_IGNORED)
        flush()
