"""Requests generated from the OpenAPI schemas, valid and invalid, get documented responses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from proxypool.config.settings import Settings
from proxypool.manage import routes
from schemathesis.generation import GenerationMode

from functions.manage import app
from tests.support.admin import Admin
from tests.support.any_request import OPERATIONS, event_of, modes
from tests.support.openapi import assert_documented


@pytest.mark.parametrize(("route", "mode"), modes(row.route for row in routes.router(Settings()).operations))
def test_any_request_gets_a_documented_response(admin: Admin, route: str, mode: GenerationMode) -> None:
    """Input 62: no crash and no stack trace."""

    @given(case=OPERATIONS[route].as_strategy(generation_mode=mode))
    @settings(max_examples=8, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def holds(case: Any) -> None:
        answer = app.handler(event_of(route, case), None)
        assert answer["statusCode"] < 500, answer
        if answer["statusCode"] != 405:
            assert_documented(route, answer["statusCode"], json.loads(answer.get("body") or "null"))

    holds()
