"""The pool's own judge: says what it sees of a request, signed. Behind CloudFront, which alone knows the peer."""

from __future__ import annotations

import re
from typing import Any

from proxypool.checks.canary import canary
from proxypool.checks.check import Basis
from proxypool.checks.judge import NONCE, answer
from proxypool.checks.secret import judge_key
from proxypool.settings import settings

PEER, SCHEME = "cloudfront-viewer-address", "cloudfront-forwarded-proto"
COUNTRY, REGION, ASN = "cloudfront-viewer-country", "cloudfront-viewer-country-region", "cloudfront-viewer-asn"
ADDED = re.compile(r"cloudfront-.*|x-amz.*|x-forwarded-(for|port|proto)|via|host|authorization", re.ASCII)
_JSON = {"content-type": "application/json", "cache-control": "no-store"}
_HTML = {"content-type": "text/html; charset=utf-8", "cache-control": "no-store"}


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The answer to GET /…?nonce=<32 hex digits>, or the page of ?canary=<32 hex digits>; 400 and 405 without a body otherwise."""
    if event["requestContext"]["http"]["method"] != "GET":
        return {"statusCode": 405, "headers": {"allow": "GET"}}
    query = event.get("queryStringParameters") or {}
    headers = {name.lower(): value for name, value in event["headers"].items()}
    key = judge_key(settings().judge_secret_arn)
    if NONCE.fullmatch(query.get("canary", "")):
        return {"statusCode": 200, "headers": _HTML, "body": canary(key, query["canary"]).decode()}
    if not NONCE.fullmatch(query.get("nonce", "")) or PEER not in headers:
        return {"statusCode": 400, "headers": _JSON}
    return {"statusCode": 200, "headers": _JSON, "body": _seen(key, query["nonce"], headers)}


def _seen(key: bytes | None, nonce: str, headers: dict[str, str]) -> str:
    peer = headers[PEER].rpartition(":")[0].strip("[]")
    asn = headers.get(ASN, "")
    body = answer(
        key,
        nonce=nonce,
        peer=peer,
        headers=_brought(headers, peer),
        scheme=headers.get(SCHEME, "https"),
        country=headers.get(COUNTRY),
        region=headers.get(REGION),
        asn=int(asn) if asn.isascii() and asn.isdigit() else None,
        basis=Basis.CLOUDFRONT,
    )
    return body.decode()


def _brought(headers: dict[str, str], peer: str) -> list[tuple[str, str]]:
    """What the request brought itself: X-Forwarded-For without the peer that CloudFront appends, Via without its hop."""
    kept = [(name, value) for name, value in headers.items() if not ADDED.fullmatch(name)]
    for name in ("x-forwarded-for", "via"):
        hops = [hop.strip() for hop in headers.get(name, "").split(",")]
        foreign = [hop for hop in hops if hop and hop != peer and "CloudFront" not in hop]
        if foreign:
            kept.append((name, ", ".join(foreign)))
    return kept
