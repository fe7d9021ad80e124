"""The pool's judge: answers with its view of a request, signed. CloudFront in front of it supplies the peer's address."""

from __future__ import annotations

import re
from typing import Any

from proxypool.checks.check import JudgeKind
from proxypool.checks.judge.answer import NONCE, build_answer
from proxypool.checks.judge.canary import canary_page
from proxypool.checks.judge.key import judge_key
from proxypool.config.settings import settings

PEER_HEADER, SCHEME_HEADER = "cloudfront-viewer-address", "cloudfront-forwarded-proto"
COUNTRY_HEADER, REGION_HEADER, ASN_HEADER = (
    "cloudfront-viewer-country",
    "cloudfront-viewer-country-region",
    "cloudfront-viewer-asn",
)
ADDED_BY_AWS = re.compile(r"cloudfront-.*|x-amz.*|x-forwarded-(for|port|proto)|via|host|authorization", re.ASCII)
_JSON = {"content-type": "application/json", "cache-control": "no-store"}
_HTML = {"content-type": "text/html; charset=utf-8", "cache-control": "no-store"}


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """The judge's answer to GET /…?nonce=<32 hex digits>, the canary page for ?canary=<32 hex digits>, else 400 or 405
    without a body.
    """
    if event["requestContext"]["http"]["method"] != "GET":
        return {"statusCode": 405, "headers": {"allow": "GET"}}
    query = event.get("queryStringParameters") or {}
    headers = {name.lower(): value for name, value in event["headers"].items()}
    key = judge_key(settings().judge_secret_arn)
    if NONCE.fullmatch(query.get("canary", "")):
        return {"statusCode": 200, "headers": _HTML, "body": canary_page(key, query["canary"]).decode()}
    if not NONCE.fullmatch(query.get("nonce", "")) or PEER_HEADER not in headers:
        return {"statusCode": 400, "headers": _JSON}
    return {"statusCode": 200, "headers": _JSON, "body": _answer_body(key, query["nonce"], headers)}


def _answer_body(key: bytes | None, nonce: str, headers: dict[str, str]) -> str:
    peer = headers[PEER_HEADER].rpartition(":")[0].strip("[]")
    asn = headers.get(ASN_HEADER, "")
    body = build_answer(
        key,
        nonce=nonce,
        peer=peer,
        headers=_client_headers(headers, peer),
        scheme=headers.get(SCHEME_HEADER, "https"),
        country=headers.get(COUNTRY_HEADER),
        region=headers.get(REGION_HEADER),
        asn=int(asn) if asn.isascii() and asn.isdigit() else None,
        basis=JudgeKind.CLOUDFRONT,
    )
    return body.decode()


def _client_headers(headers: dict[str, str], peer: str) -> list[tuple[str, str]]:
    """The client's own headers: X-Forwarded-For without the peer that CloudFront appends, Via without CloudFront."""
    client_headers = [(name, value) for name, value in headers.items() if not ADDED_BY_AWS.fullmatch(name)]
    for name in ("x-forwarded-for", "via"):
        hops = [hop.strip() for hop in headers.get(name, "").split(",")]
        client_hops = [hop for hop in hops if hop and hop != peer and "CloudFront" not in hop]
        if client_hops:
            client_headers.append((name, ", ".join(client_hops)))
    return client_headers
