"""The judge's answer: builds, signs, verifies and parses it. Pure, standard library only.

The judge answers `GET /…?nonce=<32 hex digits>` with `{"payload": "<JSON text>", "signature": "<hex HMAC-SHA256>"}`.
The signature covers the payload's text, so that it is verified before the payload is parsed. The path is ignored: each
check makes up a random one, so that a proxy cannot recognise requests to the judge by it. `?canary=<32 hex digits>`
requests a page (`canary.py`). Answers of third-party echo services are parsed by `echo.py`.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proxypool.checks.check import JudgeKind
from proxypool.checks.judge.mac import hmac_hex
from proxypool.errors import ProxyPoolError

NONCE = re.compile(r"[0-9a-f]{32}", re.ASCII)  # 128 bits
MAX_HEADERS = 64
MAX_HEADER_CHARS = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The judge's view of a request: the peer's address and location (None: unknown), headers (lower-case names), http
    or https.
    """

    peer: str
    headers: tuple[tuple[str, str], ...]
    scheme: str
    country: str | None = None
    region: str | None = None
    asn: int | None = None
    basis: JudgeKind = JudgeKind.RAW
    signed: bool = False


class InvalidAnswer(ProxyPoolError):
    """The body is not a valid answer of the judge to this request; `reason` is the value of `Reason`."""

    reason = "content_mismatch"

    def __init__(self) -> None:
        super().__init__(self.reason)


class ContentMismatch(InvalidAnswer):
    """Not an answer of a judge: a web server, a billing page, a captive portal."""


class NonceMissing(InvalidAnswer):
    """JSON, but without our nonce."""

    reason = "nonce_missing"


class ForgedAnswer(InvalidAnswer):
    """Looks like the judge's answer, but the signature is wrong."""

    reason = "forged"


class ReplayedAnswer(InvalidAnswer):
    """Signed by the judge, for another request."""

    reason = "replayed"


class TamperedAnswer(InvalidAnswer):
    """The body contains the judge's signed answer and additional bytes."""

    reason = "tampered"


class UnsignedAnswer(InvalidAnswer):
    """No signature, although the judge has a key."""

    reason = "unsigned"


def new_nonce() -> str:
    """32 random hex digits, never used before."""
    return secrets.token_hex(16)


def build_answer(
    key: bytes | None,
    *,
    nonce: str,
    peer: str,
    headers: Sequence[tuple[str, str]],
    scheme: str,
    country: str | None,
    region: str | None = None,
    asn: int | None = None,
    basis: JudgeKind = JudgeKind.RAW,
) -> bytes:
    """The response body with the judge's view of a request; the signature is empty without a key. Headers beyond the
    limits are dropped or cut.
    """
    truncated = [[name.lower(), value[:MAX_HEADER_CHARS]] for name, value in headers[:MAX_HEADERS]]
    payload = json.dumps(
        {
            "nonce": nonce, "peer": peer, "headers": truncated, "scheme": scheme,
            "country": country.lower() if country else None, "region": region.lower() if region else None, "asn": asn,
            "basis": basis.value,
        },
        separators=(",", ":"),
    )  # fmt: skip
    return _encode_body(payload, _sign(key, payload))


def parse_answer(key: bytes | None, body: bytes, nonce: str) -> Observation:
    """The observation in the judge's answer to this nonce; raises a subclass of InvalidAnswer.

    Without a key nothing is verified: `signed` is False, and only the nonce binds the answer to the request.
    """
    outer = parse_object(body)
    if outer is None:
        raise _error_for_non_json(key, body, nonce)
    payload, signature = outer.get("payload"), outer.get("signature")
    if not isinstance(payload, str) or not isinstance(signature, str):
        raise NonceMissing()
    if key is not None:
        _verify(key, payload, signature)
    inner = parse_object(payload)
    if inner is None:
        raise ContentMismatch()
    if inner.get("nonce") != nonce:
        raise ReplayedAnswer() if key is not None else NonceMissing()
    if key is not None and _encode_body(payload, signature) != body:
        raise TamperedAnswer()
    return _parse_observation(inner, signed=key is not None)


def _verify(key: bytes, payload: str, signature: str) -> None:
    if not signature:
        raise UnsignedAnswer()
    if not hmac.compare_digest(_sign(key, payload).encode(), signature.encode()):
        raise ForgedAnswer()


def _error_for_non_json(key: bytes | None, body: bytes, nonce: str) -> InvalidAnswer:
    """The error for a body that is not a JSON object: TamperedAnswer if it contains a valid answer."""
    start, end = body.find(b'{"payload":'), body.rfind(b'"}')
    if start < 0 or end < start:
        return ContentMismatch()
    try:
        parse_answer(key, body[start : end + 2], nonce)
    except InvalidAnswer as error:
        return error
    return TamperedAnswer()


def _encode_body(payload: str, signature: str) -> bytes:
    """The body exactly as the judge sends it: any other bytes around the answer were added in transit."""
    return b'{"payload":%s,"signature":"%s"}' % (json.dumps(payload).encode(), signature.encode())


def parse_object(body: bytes | str) -> dict[str, Any] | None:
    """The JSON object in a body or text; None if it is something else."""
    try:
        value = json.loads(body if isinstance(body, str) else body.decode())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parse_observation(inner: dict[str, Any], *, signed: bool) -> Observation:
    try:
        headers = tuple([(str(name), str(value)) for name, value in inner["headers"]])
        return Observation(
            peer=str(inner["peer"]), headers=headers, scheme=str(inner["scheme"]),
            country=inner.get("country"), region=inner.get("region"), asn=inner.get("asn"), signed=signed,
            basis=JudgeKind(inner.get("basis", JudgeKind.RAW)),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise ContentMismatch() from None


def _sign(key: bytes | None, payload: str) -> str:
    return "" if key is None else hmac_hex(key, payload)
