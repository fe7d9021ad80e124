"""The judge's Lambda function, with events as CloudFront sends them."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from proxypool.checks.check import JudgeKind
from proxypool.checks.judge import answer as judge
from proxypool.checks.judge.canary import canary_page

NONCE = "ab" * 16
APP = Path(__file__).parents[3] / "functions/judge/app.py"


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = spec_from_file_location("judge_app", APP)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "judge_key", lambda _: b"key")
    return module


def an_event(*, method: str = "GET", nonce: str = NONCE, **headers: str) -> dict[str, Any]:
    return {
        "requestContext": {"http": {"method": method}},
        "queryStringParameters": {"nonce": nonce},
        "headers": {"cloudfront-viewer-address": "198.51.100.7:4711", "host": "x.lambda-url"} | headers,
    }


def test_the_peer_is_cloudfronts_viewer_and_not_what_the_caller_claims(app: Any) -> None:
    """Inputs 39, 42: headers that CloudFront and Lambda add are removed; those that a proxy adds remain."""
    headers = {
        "x-forwarded-for": "203.0.113.9, 198.51.100.7",
        "x-amzn-trace-id": "t",
        "via": "1.1 squid, 2.0 a (CloudFront)",
    }

    answer = app.handler(an_event(**headers), None)

    observation = judge.parse_answer(b"key", answer["body"].encode(), NONCE)
    assert observation.peer == "198.51.100.7"
    assert dict(observation.headers) == {"x-forwarded-for": "203.0.113.9", "via": "1.1 squid"}


def test_the_location_of_the_peer_comes_from_cloudfront(app: Any) -> None:
    """Inputs 42, 45: and the basis is CloudFront."""
    location_headers = {
        "cloudfront-viewer-country": "DE", "cloudfront-viewer-country-region": "BE", "cloudfront-viewer-asn": "64496",
    }  # fmt: skip

    observation = judge.parse_answer(b"key", app.handler(an_event(**location_headers), None)["body"].encode(), NONCE)

    assert (observation.country, observation.region, observation.asn, observation.basis) == (
        "de",
        "be",
        64_496,
        JudgeKind.CLOUDFRONT,
    )
    assert observation.headers == ()


def test_an_ipv6_peer_is_reported_without_its_port(app: Any) -> None:
    """Input 42."""
    answer = app.handler(an_event(**{"cloudfront-viewer-address": "2001:db8::7:4711"}), None)

    assert judge.parse_answer(b"key", answer["body"].encode(), NONCE).peer == "2001:db8::7"


def test_the_canary_is_served_as_a_page(app: Any) -> None:
    """Input 43."""
    event = an_event()
    event["queryStringParameters"] = {"canary": NONCE}

    answer = app.handler(event, None)

    assert answer["body"].encode() == canary_page(b"key", NONCE)
    assert answer["headers"]["content-type"].startswith("text/html")


@pytest.mark.parametrize(("parts", "status"), [({"method": "POST"}, 405), ({"nonce": "short"}, 400)])
def test_a_request_other_than_a_get_with_a_nonce_is_rejected(app: Any, parts: dict[str, Any], status: int) -> None:
    assert app.handler(an_event(**parts), None)["statusCode"] == status
