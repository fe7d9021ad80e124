"""Reads the answers of third-party echo services, which are unsigned. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from proxypool.checks.check import JudgeKind
from proxypool.checks.judge.answer import ContentMismatch, NonceMissing, Observation, parse_object

_ADDRESS_FIELDS: Final = ("origin", "ip", "query", "client_ip")
_COUNTRY_FIELDS: Final = ("country_code", "countryCode", "country")


def parse_echo(body: bytes, nonce: str) -> Observation:
    """The observation of an echo service in httpbin's format: `origin`, `headers`, the query in `args` or `url`. Never
    signed.

    Only the nonce binds the answer to the request, so anyone who reads the request can forge it. Raises InvalidAnswer.
    """
    value = parse_object(body)
    if value is None:
        raise ContentMismatch()
    if nonce not in body.decode("utf-8", "replace"):
        raise NonceMissing()
    origin = next((value[name] for name in _ADDRESS_FIELDS if isinstance(value.get(name), str)), None)
    if origin is None:
        raise ContentMismatch()
    forwarded_for, _, peer = origin.rpartition(",")  # httpbin puts X-Forwarded-For into `origin` and hides the header
    scheme = "https" if str(value.get("url")).startswith("https:") else "http"
    extra_headers = (("x-forwarded-for", forwarded_for),) if forwarded_for else ()
    return Observation(
        peer=peer.strip(),
        headers=(*_headers(value), *extra_headers),
        scheme=scheme,
        country=_country(value),
        basis=JudgeKind.ECHO,
    )


def _headers(value: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    headers = value.get("headers")
    return tuple((str(name).lower(), str(text)) for name, text in headers.items()) if isinstance(headers, dict) else ()


def _country(value: dict[str, Any]) -> str | None:
    codes = (value.get(name) for name in _COUNTRY_FIELDS)
    return next((code.lower() for code in codes if isinstance(code, str) and re.fullmatch("[A-Za-z]{2}", code)), None)
