"""Other people's judges: echo services, which nobody signs. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from proxypool.checks.check import Basis
from proxypool.checks.judge import ContentMismatch, NonceMissing, Seen, read_object

_ECHO_ADDRESS: Final = ("origin", "ip", "query", "client_ip")
_ECHO_COUNTRY: Final = ("country_code", "countryCode", "country")


def read_echo(body: bytes, nonce: str) -> Seen:
    """What an echo service saw (httpbin's form: `origin`, `headers`, the query among `args` or in `url`), never signed.

    Only the nonce binds it: whoever reads our request can make this answer up. Raises a JudgeRefusal otherwise.
    """
    value = read_object(body)
    if value is None:
        raise ContentMismatch()
    if nonce not in body.decode("utf-8", "replace"):
        raise NonceMissing()
    origin = next((value[name] for name in _ECHO_ADDRESS if isinstance(value.get(name), str)), None)
    if origin is None:
        raise ContentMismatch()
    before, _, peer = origin.rpartition(",")  # httpbin folds X-Forwarded-For into `origin`, and hides the header
    scheme = "https" if str(value.get("url")).startswith("https:") else "http"
    forwarded = (("x-forwarded-for", before),) if before else ()
    return Seen(
        peer=peer.strip(),
        headers=(*_headers(value), *forwarded),
        scheme=scheme,
        country=_country(value),
        basis=Basis.ECHO,
    )


def _headers(value: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    found = value.get("headers")
    return tuple((str(name).lower(), str(text)) for name, text in found.items()) if isinstance(found, dict) else ()


def _country(value: dict[str, Any]) -> str | None:
    codes = (value.get(name) for name in _ECHO_COUNTRY)
    return next((code.lower() for code in codes if isinstance(code, str) and re.fullmatch("[A-Za-z]{2}", code)), None)
