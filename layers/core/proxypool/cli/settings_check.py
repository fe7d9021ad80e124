"""Checks the text of the parameter `Overrides` before a deploy: each pair, and settings that depend on each other."""

from __future__ import annotations

from collections.abc import Iterator

from proxypool.config.overrides import MAX_CHARS, parse
from proxypool.config.settings import SETTING_SPECS, Settings
from proxypool.config.time_limits import NORMAL, VISIBILITY_FACTOR

CLAIM_MARGIN_SECONDS = 30  # between the clocks of two invocations


def check_overrides(text: str) -> list[str]:
    """One line per error; an empty list where the text can be deployed. Offline: no AWS call is made."""
    values, problems = parse(text, SETTING_SPECS)
    if len(text) > MAX_CHARS:
        problems.append(f"{len(text):,} characters exceed the {MAX_CHARS:,} of the parameter")
    return problems + list(_conflicts(Settings(**values)))  # type: ignore[arg-type]


def _conflicts(settings: Settings) -> Iterator[str]:
    for lower, higher, why in (
        ("check_connect_seconds", "check_stage_seconds", "connecting is a part of a stage"),
        ("check_stage_seconds", "check_total_seconds", "a stage is a part of a check"),
        ("lease_seconds", "max_lease_seconds", "the default duration must be one that may be asked for"),
        ("max_lease_seconds", "max_lease_total_seconds", "a lease lasts at most as long as with its renewals"),
        ("session_idle_seconds", "session_life_seconds", "a session ends with its life"),
        ("active_recheck_seconds", "max_age_seconds", "a proxy would stop being leased before its next check"),
        ("thaw_percent", "freeze_percent", "a freeze would end at once"),
        ("check_retention_days", "check_ttl_days", "a check ends with its TTL"),
    ):
        if getattr(settings, lower) > getattr(settings, higher):
            yield f"{lower} ({getattr(settings, lower):g}) exceeds {higher} ({getattr(settings, higher):g}): {why}"
    scrape, validate, fetch = (
        NORMAL.scrape_time_limit_seconds,
        NORMAL.validate_time_limit_seconds,
        NORMAL.fetch_time_limit_seconds,
    )
    for name, low, high in (
        ("scrape_timeout_seconds", 0, scrape),
        ("scrape_claim_seconds", scrape + CLAIM_MARGIN_SECONDS, scrape * VISIBILITY_FACTOR - 1),
        ("check_total_seconds", 0, validate),
        ("claim_seconds", validate + CLAIM_MARGIN_SECONDS, validate * VISIBILITY_FACTOR - 1),
        ("job_run_seconds", 0, fetch - 1),
        ("fetch_page_seconds", 0, settings.job_run_seconds),
        ("expire_retry_seconds", 0, NORMAL.task_time_limit_seconds - 1),
    ):
        if not low <= getattr(settings, name) <= high:
            yield f"{name} ({getattr(settings, name):g}) must be from {low} to {high}: it depends on a time limit"
    yield from _unknown_stages(settings)
    yield from _unknown_filters(settings)


def _unknown_stages(settings: Settings) -> Iterator[str]:
    if not settings.check_skip:
        return
    from proxypool.checks.probe.checkers import stages

    known = [stage.name for stage in stages()]
    for name in settings.check_skip:
        if name not in known:
            yield f"check_skip: {name!r} is not a stage of a check; the stages are {', '.join(known)}"


def _unknown_filters(settings: Settings) -> Iterator[str]:
    from proxypool.leases.build import pool_low_filters

    try:
        pool_low_filters(settings)
    except ValueError as error:
        yield f"pool_low_filters: {error}"
