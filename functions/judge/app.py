"""The pool's own judge: says what it sees of a request, signed. Behind CloudFront, which alone knows the peer."""

from __future__ import annotations

import re
from typing import Any

from proxypool.checks.judge import NONCE, answer
from proxypool.checks.secret import judge_key
from proxypool.settings import settings

PEER, COUNTRY, SCHEME = "cloudfront-viewer-address", "cloudfront-viewer-country", "cloudfront-forwarded-proto"
ADDED = re.compile(r"cloudfront-.*|x-amz.*|x-forwarded-(for|port|proto)|via|host|authorization", re.ASCII)
_JSON = {"content-type": "application/json", "cache-control": "no-store"}


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The answer to GET /?nonce=<32 hex digits>; 400 and 405 without a body otherwise."""
    if event["requestContext"]["http"]["method"] != "GET":
        return {"statusCode": 405, "headers": {"allow": "GET"}}
    nonce = (event.get("queryStringParameters") or {}).get("nonce", "")
    headers = {name.lower(): value for name, value in event["headers"].items()}
    if not NONCE.fullmatch(nonce) or PEER not in headers:
        return {"statusCode": 400, "headers": _JSON}
    body = answer(
        judge_key(settings().judge_secret_arn),
        nonce=nonce,
        peer=headers[PEER].rpartition(":")[0].strip("[]"),
        headers=_brought(headers, headers[PEER].rpartition(":")[0]),
        scheme=headers.get(SCHEME, "https"),
        country=headers.get(COUNTRY),
    )
    return {"statusCode": 200, "headers": _JSON, "body": body.decode()}


def _brought(headers: dict[str, str], peer: str) -> list[tuple[str, str]]:
    """What the request brought itself: X-Forwarded-For without the peer that CloudFront appends, Via without its hop."""
    kept = [(name, value) for name, value in headers.items() if not ADDED.fullmatch(name)]
    for name in ("x-forwarded-for", "via"):
        hops = [hop.strip() for hop in headers.get(name, "").split(",")]
        foreign = [hop for hop in hops if hop and hop != peer and "CloudFront" not in hop]
        if foreign:
            kept.append((name, ", ".join(foreign)))
    return kept
