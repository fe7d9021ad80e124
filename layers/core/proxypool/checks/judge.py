"""The judge's answer and its reader: what the judge saw of a request, signed, bound to one nonce. Pure, standard library only.

The judge answers `GET /…?nonce=<32 hex digits>` with `{"payload": "<JSON text>", "signature": "<hex HMAC-SHA256>"}`.
The signature covers the payload's text, so that a reader verifies bytes before it looks at their meaning. The path is
free: a check makes one up, so that nobody can be honest to the judge alone. `?canary=<32 hex digits>` asks for a page
(`canary.py`). Other people's echo services are read by `echo.py`.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proxypool.checks.check import Basis
from proxypool.checks.mac import mac
from proxypool.errors import ProxyPoolError

NONCE = re.compile(r"[0-9a-f]{32}", re.ASCII)  # 128 bits
MAX_HEADERS = 64
MAX_HEADER_CHARS = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the judge saw: the peer's address, the headers, http or https, where the peer stands (None: not known)."""

    peer: str
    headers: tuple[tuple[str, str], ...]
    scheme: str
    country: str | None = None
    region: str | None = None
    asn: int | None = None
    basis: Basis = Basis.RAW
    signed: bool = False


class JudgeRefusal(ProxyPoolError):
    """A body is not the judge's answer to our question; `reason` is the class's word."""

    reason = "content_mismatch"

    def __init__(self) -> None:
        super().__init__(self.reason)


class ContentMismatch(JudgeRefusal):
    """Something else answered: a web server, a billing page, a captive portal."""


class NonceMissing(JudgeRefusal):
    """JSON of some kind, but nothing of our question is in it."""

    reason = "nonce_missing"


class Forged(JudgeRefusal):
    """It looks like our judge's answer, and the judge did not sign it."""

    reason = "forged"


class Replayed(JudgeRefusal):
    """The judge signed it, for another question."""

    reason = "replayed"


class Tampered(JudgeRefusal):
    """The judge's signed answer is in the body, and something was put around it."""

    reason = "tampered"


class Unsigned(JudgeRefusal):
    """The answer carries no signature where the judge has a key."""

    reason = "unsigned"


def new_nonce() -> str:
    """32 hex digits that were never used before."""
    return secrets.token_hex(16)


def answer(
    key: bytes | None,
    *,
    nonce: str,
    peer: str,
    headers: Sequence[tuple[str, str]],
    scheme: str,
    country: str | None,
    region: str | None = None,
    asn: int | None = None,
    basis: Basis = Basis.RAW,
) -> bytes:
    """The body that tells what the judge saw; its signature is empty without a key."""
    kept = [[name.lower(), value[:MAX_HEADER_CHARS]] for name, value in headers[:MAX_HEADERS]]
    payload = json.dumps(
        {
            "nonce": nonce, "peer": peer, "headers": kept, "scheme": scheme,
            "country": country.lower() if country else None, "region": region.lower() if region else None, "asn": asn,
            "basis": basis.value,
        },
        separators=(",", ":"),
    )  # fmt: skip
    return _written(payload, _sign(key, payload))


def read(key: bytes | None, body: bytes, nonce: str) -> Seen:
    """What the judge saw, from a body that is its answer to this nonce; raises a JudgeRefusal otherwise.

    Without a key nothing can be verified: `signed` is then False, and only the nonce binds the answer.
    """
    outer = read_object(body)
    if outer is None:
        raise _altered(key, body, nonce)
    payload, signature = outer.get("payload"), outer.get("signature")
    if not isinstance(payload, str) or not isinstance(signature, str):
        raise NonceMissing()
    if key is not None:
        _verify(key, payload, signature)
    inner = read_object(payload)
    if inner is None:
        raise ContentMismatch()
    if inner.get("nonce") != nonce:
        raise Replayed() if key is not None else NonceMissing()
    if key is not None and _written(payload, signature) != body:
        raise Tampered()
    return _seen(inner, signed=key is not None)


def _verify(key: bytes, payload: str, signature: str) -> None:
    if not signature:
        raise Unsigned()
    if not hmac.compare_digest(_sign(key, payload).encode(), signature.encode()):
        raise Forged()


def _altered(key: bytes | None, body: bytes, nonce: str) -> JudgeRefusal:
    """Why a body is no JSON object: our answer with something around it, or something else altogether."""
    start, end = body.find(b'{"payload":'), body.rfind(b'"}')
    if start < 0 or end < start:
        return ContentMismatch()
    try:
        read(key, body[start : end + 2], nonce)
    except JudgeRefusal as refusal:
        return refusal
    return Tampered()


def _written(payload: str, signature: str) -> bytes:
    """The body as the judge writes it: whatever is more was put there on the way."""
    return b'{"payload":%s,"signature":"%s"}' % (json.dumps(payload).encode(), signature.encode())


def read_object(body: bytes | str) -> dict[str, Any] | None:
    """The JSON object in a body or text; None where there is none."""
    try:
        value = json.loads(body if isinstance(body, str) else body.decode())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _seen(inner: dict[str, Any], *, signed: bool) -> Seen:
    try:
        headers = tuple([(str(name), str(value)) for name, value in inner["headers"]])
        return Seen(
            peer=str(inner["peer"]), headers=headers, scheme=str(inner["scheme"]),
            country=inner.get("country"), region=inner.get("region"), asn=inner.get("asn"), signed=signed,
            basis=Basis(inner.get("basis", Basis.RAW)),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise ContentMismatch() from None


def _sign(key: bytes | None, payload: str) -> str:
    return "" if key is None else mac(key, payload)
