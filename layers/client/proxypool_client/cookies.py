"""Cookies with the rules of browsers (RFC 6265, public suffixes), imported from and exported to JSON and Netscape files.

Pure: `now` is an argument, in epoch seconds. A cookie that violates a rule is ignored, as browsers do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from http.cookiejar import http2time  # type: ignore[attr-defined]  # every date form that sites send
from typing import Any
from urllib.parse import urlsplit

from publicsuffixlist import PublicSuffixList

MAX_COOKIE_BYTES = 4_096
MAX_PER_DOMAIN = 50
MAX_TOTAL_BYTES = 256 * 1024
NEVER_EXPIRES = 253_402_300_799  # the end of year 9999


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """One cookie. `expires_at` in epoch seconds; None: a session cookie. `host_only`: not for subdomains."""

    name: str
    value: str
    domain: str
    path: str = "/"
    expires_at: int | None = None
    secure: bool = False
    http_only: bool = False
    host_only: bool = True

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of a cookie: a later one with the same key replaces it."""
        return self.domain, self.path, self.name

    def is_expired(self, now: float) -> bool:
        """True from `expires_at` on; a site removes a cookie by an expiry at the epoch."""
        return self.expires_at is not None and self.expires_at <= now

    def is_sent_to(self, url: str) -> bool:
        """True if a request for the URL carries it (RFC 6265, 5.4)."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        same_site = host == self.domain if self.host_only else domain_matches(host, self.domain)
        return same_site and path_matches(parts.path or "/", self.path) and (not self.secure or parts.scheme == "https")


@dataclass(slots=True)
class Jar:
    """The cookies of one session, and the changes since it was loaded (to apply them again after a version conflict)."""

    cookies: dict[tuple[str, str, str], Cookie] = field(default_factory=dict)
    changes: list[Cookie] = field(default_factory=list)

    @classmethod
    def from_cookies(cls, cookies: Iterable[Cookie]) -> Jar:
        """A jar of these cookies, except those for a public suffix."""
        allowed = (cookie for cookie in cookies if cookie.host_only or not is_public_suffix(cookie.domain))
        return cls({cookie.key: cookie for cookie in allowed})

    def header(self, url: str, *, now: float) -> str:
        """The Cookie header of a request, longest path first; "" if no cookie is sent."""
        sent = [cookie for cookie in self.cookies.values() if not cookie.is_expired(now) and cookie.is_sent_to(url)]
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in sorted(sent, key=lambda one: -len(one.path)))

    def update(self, set_cookies: Iterable[str], url: str, *, now: float) -> None:
        """Applies the Set-Cookie headers of a response from `url`."""
        for text in set_cookies:
            cookie = parse_set_cookie(text, url, now=now)
            if cookie is not None:
                self._put(cookie, now)
                self.changes.append(cookie)

    def rebased(self, newer: Iterable[Cookie], *, now: float) -> Jar:
        """The cookies that another client saved, with this jar's own changes applied."""
        jar = Jar.from_cookies(newer)
        for cookie in self.changes:
            jar._put(cookie, now)
        jar.changes = list(self.changes)
        return jar

    def live(self, *, now: float) -> list[Cookie]:
        """The unexpired cookies to store, at most 50 per domain and 256 KB in total; the oldest are dropped."""
        out: list[Cookie] = []
        per_domain: dict[str, int] = {}
        total = 0
        for cookie in reversed(self.cookies.values()):  # the newest first
            per_domain[cookie.domain] = per_domain.get(cookie.domain, 0) + 1
            total += _size(cookie)
            if per_domain[cookie.domain] <= MAX_PER_DOMAIN and total <= MAX_TOTAL_BYTES and not cookie.is_expired(now):
                out.append(cookie)
        return out[::-1]

    def count_dropped(self, *, now: float) -> int:
        """The number of unexpired cookies that `live` drops."""
        return sum(not cookie.is_expired(now) for cookie in self.cookies.values()) - len(self.live(now=now))

    def _put(self, cookie: Cookie, now: float) -> None:
        self.cookies.pop(cookie.key, None)
        if not cookie.is_expired(now):
            self.cookies[cookie.key] = cookie


def parse_set_cookie(text: str, url: str, *, now: float) -> Cookie | None:
    """The cookie of a Set-Cookie header from `url`; None if a browser would reject it: another domain, a public suffix, Secure
    from plain http, a violated `__Host-` or `__Secure-` prefix, control characters, over 4 KB.
    """
    pair, *rest = text.split(";")
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not equals or not name or len(text) > 2 * MAX_COOKIE_BYTES or not text.isprintable():
        return None
    parts = urlsplit(url)
    attributes = _attributes(rest)
    host = (parts.hostname or "").lower()
    domain = attributes.get("domain", "").lower().lstrip(".")
    if domain and is_public_suffix(domain):
        domain = "" if domain == host else "."
    if domain and not domain_matches(host, domain):
        return None
    path = attributes.get("path", "")
    cookie = Cookie(
        name=name,
        value=value,
        domain=domain or host,
        path=path if path.startswith("/") else default_path(parts.path),
        expires_at=_expiry(attributes, now),
        secure="secure" in attributes,
        http_only="httponly" in attributes,
        host_only=not domain,
    )
    return cookie if _is_allowed(cookie, secure_origin=parts.scheme == "https", is_root=path == "/") else None


def domain_matches(host: str, domain: str) -> bool:
    """RFC 6265, 5.1.3: the same name or a subdomain of it; an IP address matches only itself."""
    if host == domain:
        return True
    return host.endswith("." + domain) and not host.replace(".", "").isdigit() and ":" not in host


def path_matches(path: str, prefix: str) -> bool:
    """RFC 6265, 5.1.4: the same path or one below it."""
    return path == prefix or (path.startswith(prefix) and (prefix.endswith("/") or path[len(prefix)] == "/"))


def default_path(path: str) -> str:
    """RFC 6265, 5.1.4: the directory of the page that set the cookie."""
    return path[: path.rindex("/")] or "/" if path.startswith("/") else "/"


def is_public_suffix(domain: str) -> bool:
    """True for a domain below which anyone can register names (com, co.uk, github.io); cookies for it are rejected."""
    return bool(_suffixes().is_public(domain))


def to_json(cookies: Iterable[Cookie]) -> list[dict[str, Any]]:
    """The cookies in the format of a stored session."""
    return [asdict(cookie) for cookie in cookies]


def from_json(values: Iterable[Mapping[str, Any]]) -> list[Cookie]:
    """The cookies of a stored session or of a browser export (`expirationDate`, `httpOnly`, `hostOnly`, `.domain`).

    Raises KeyError or TypeError for a value that is not a cookie.
    """
    return [_cookie(value) for value in values]


def to_netscape(cookies: Iterable[Cookie]) -> str:
    """The cookies as a cookies.txt file, which curl, wget and yt-dlp read."""
    lines = ["# Netscape HTTP Cookie File"]
    for cookie in cookies:
        prefix = "#HttpOnly_" if cookie.http_only else ""
        domain = cookie.domain if cookie.host_only else "." + cookie.domain
        flags = "FALSE" if cookie.host_only else "TRUE", cookie.path, "TRUE" if cookie.secure else "FALSE"
        lines.append("\t".join([prefix + domain, *flags, str(cookie.expires_at or 0), cookie.name, cookie.value]))
    return "\n".join(lines) + "\n"


def from_netscape(text: str) -> list[Cookie]:
    """The cookies of a cookies.txt file; invalid lines are skipped."""
    cookies = []
    for line in text.splitlines():
        http_only = line.startswith("#HttpOnly_")
        parts = line.removeprefix("#HttpOnly_").split("\t")
        if len(parts) != 7 or parts[0].startswith("#") or not parts[4].isdecimal():
            continue
        domain, subdomains, path, secure, expires, name, value = parts
        cookies.append(
            Cookie(
                name=name,
                value=value,
                domain=domain.lstrip(".").lower(),
                path=path,
                expires_at=int(expires) or None,
                secure=secure == "TRUE",
                http_only=http_only,
                host_only=subdomains != "TRUE",
            )
        )
    return cookies


def _cookie(value: Mapping[str, Any]) -> Cookie:
    """A cookie from the field names of a session or of a browser export; raises KeyError or TypeError if it is none."""
    names = {field.name for field in fields(Cookie)}
    out = {name: item for name, item in value.items() if name in names}
    domain = str(value["domain"]).lower()
    expires = value.get("expires_at", value.get("expirationDate", value.get("expires")))
    is_persistent = isinstance(expires, int | float) and not isinstance(expires, bool) and expires > 0
    return Cookie(
        **out
        | {
            "domain": domain.lstrip("."),
            "host_only": bool(value.get("host_only", value.get("hostOnly", not domain.startswith(".")))),
            "http_only": bool(value.get("http_only", value.get("httpOnly", False))),
            "secure": bool(value.get("secure", False)),
            "expires_at": min(int(expires), NEVER_EXPIRES) if is_persistent else None,
        }
    )


def _attributes(parts: Iterable[str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for part in parts:
        name, _, value = part.partition("=")
        out[name.strip().lower()] = value.strip()  # the last one wins
    return out


def _expiry(attributes: Mapping[str, str], now: float) -> int | None:
    """Max-Age, else Expires; None (a session cookie) without either."""
    age = attributes.get("max-age", "")
    if age.lstrip("-").isdecimal():
        return min(int(now) + int(age), NEVER_EXPIRES) if not age.startswith("-") and int(age) > 0 else 0
    at = http2time(attributes["expires"]) if "expires" in attributes else None
    return None if at is None else max(0, min(int(at), NEVER_EXPIRES))


def _is_allowed(cookie: Cookie, *, secure_origin: bool, is_root: bool) -> bool:
    if _size(cookie) > MAX_COOKIE_BYTES or (cookie.secure and not secure_origin):
        return False
    if cookie.name.startswith("__Host-"):
        return cookie.secure and cookie.host_only and is_root
    return cookie.secure or not cookie.name.startswith("__Secure-")


def _size(cookie: Cookie) -> int:
    return len(cookie.name.encode()) + len(cookie.value.encode())


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
