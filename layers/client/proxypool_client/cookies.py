"""Cookies as browsers keep them (RFC 6265, with public suffixes), in the forms that people hand on: JSON, Netscape's file.

Pure: `now` is an argument, in epoch seconds. A cookie that may not be kept is refused without a word, as a browser does.
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
FOREVER = 253_402_300_799  # the end of year 9999


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """One cookie. `expires_at` in epoch seconds, None: until the session ends. `host_only`: not for subdomains."""

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
        """What makes it the same cookie: a later one of the same key takes its place."""
        return self.domain, self.path, self.name

    def is_over(self, now: float) -> bool:
        """Whether it has expired; a cookie that expires at the epoch is how a site removes one."""
        return self.expires_at is not None and self.expires_at <= now

    def goes_to(self, url: str) -> bool:
        """Whether a request for the URL carries it (RFC 6265, 5.4)."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        at_home = host == self.domain if self.host_only else domain_matches(host, self.domain)
        return at_home and path_matches(parts.path or "/", self.path) and (not self.secure or parts.scheme == "https")


@dataclass(slots=True)
class Jar:
    """The cookies of one session, and what has changed in it since it was loaded (so that a lost save can be made again)."""

    cookies: dict[tuple[str, str, str], Cookie] = field(default_factory=dict)
    changes: list[Cookie] = field(default_factory=list)

    @classmethod
    def of(cls, cookies: Iterable[Cookie]) -> Jar:
        """A jar with these cookies, without those that no host may set for others (a public suffix)."""
        kept = (one for one in cookies if one.host_only or not is_public_suffix(one.domain))
        return cls({one.key: one for one in kept})

    def header(self, url: str, *, now: float) -> str:
        """The Cookie header for a request, longest path first; "" where there is none."""
        fit = [one for one in self.cookies.values() if not one.is_over(now) and one.goes_to(url)]
        return "; ".join(f"{one.name}={one.value}" for one in sorted(fit, key=lambda one: -len(one.path)))

    def take(self, set_cookies: Iterable[str], url: str, *, now: float) -> None:
        """Keeps what the Set-Cookie headers of an answer from `url` say."""
        for text in set_cookies:
            cookie = parse_set_cookie(text, url, now=now)
            if cookie is not None:
                self._put(cookie, now)
                self.changes.append(cookie)

    def rebased(self, newer: Iterable[Cookie], *, now: float) -> Jar:
        """What somebody else saved meanwhile, with this jar's own changes made on top."""
        jar = Jar.of(newer)
        for cookie in self.changes:
            jar._put(cookie, now)
        jar.changes = list(self.changes)
        return jar

    def live(self, *, now: float) -> list[Cookie]:
        """The cookies to store: the oldest of a domain with more than 50, and of more than 256 KB in all, are dropped."""
        out: list[Cookie] = []
        per_domain: dict[str, int] = {}
        total = 0
        for cookie in reversed(self.cookies.values()):  # the newest first
            per_domain[cookie.domain] = per_domain.get(cookie.domain, 0) + 1
            total += _size(cookie)
            if per_domain[cookie.domain] <= MAX_PER_DOMAIN and total <= MAX_TOTAL_BYTES and not cookie.is_over(now):
                out.append(cookie)
        return out[::-1]

    def dropped(self, *, now: float) -> int:
        """How many of the cookies that have not expired `live` drops."""
        return sum(not one.is_over(now) for one in self.cookies.values()) - len(self.live(now=now))

    def _put(self, cookie: Cookie, now: float) -> None:
        self.cookies.pop(cookie.key, None)
        if not cookie.is_over(now):
            self.cookies[cookie.key] = cookie


def parse_set_cookie(text: str, url: str, *, now: float) -> Cookie | None:
    """The cookie of a Set-Cookie header from `url`; None where a browser would refuse it: another domain, a public suffix,
    Secure from plain http, a broken `__Host-` or `__Secure-` promise, control characters, over 4 KB.
    """
    pair, *rest = text.split(";")
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not equals or not name or len(text) > 2 * MAX_COOKIE_BYTES or not text.isprintable():
        return None
    parts = urlsplit(url)
    said = _attributes(rest)
    host = (parts.hostname or "").lower()
    domain = said.get("domain", "").lower().lstrip(".")
    if domain and is_public_suffix(domain):
        domain = "" if domain == host else "."
    if domain and not domain_matches(host, domain):
        return None
    path = said.get("path", "")
    cookie = Cookie(
        name=name,
        value=value,
        domain=domain or host,
        path=path if path.startswith("/") else default_path(parts.path),
        expires_at=_expiry(said, now),
        secure="secure" in said,
        http_only="httponly" in said,
        host_only=not domain,
    )
    return cookie if _is_allowed(cookie, secure_origin=parts.scheme == "https", says_root=path == "/") else None


def domain_matches(host: str, domain: str) -> bool:
    """RFC 6265, 5.1.3: the same name, or a subdomain of it; an IP address only matches itself."""
    if host == domain:
        return True
    return host.endswith("." + domain) and not host.replace(".", "").isdigit() and ":" not in host


def path_matches(path: str, prefix: str) -> bool:
    """RFC 6265, 5.1.4: the same path, or one below it."""
    return path == prefix or (path.startswith(prefix) and (prefix.endswith("/") or path[len(prefix)] == "/"))


def default_path(path: str) -> str:
    """RFC 6265, 5.1.4: the folder of the page that set the cookie."""
    return path[: path.rindex("/")] or "/" if path.startswith("/") else "/"


def is_public_suffix(domain: str) -> bool:
    """Whether anybody may register names below it (com, co.uk, github.io): no cookie is for all of those."""
    return bool(_suffixes().is_public(domain))


def to_json(cookies: Iterable[Cookie]) -> list[dict[str, Any]]:
    """The cookies as a session stores them."""
    return [asdict(one) for one in cookies]


def from_json(values: Iterable[Mapping[str, Any]]) -> list[Cookie]:
    """The cookies of a stored session, or of a browser's export (`expirationDate`, `httpOnly`, `hostOnly`, `.domain`)."""
    return [_cookie(value) for value in values]


def to_netscape(cookies: Iterable[Cookie]) -> str:
    """The cookies as curl, wget and yt-dlp read them."""
    lines = ["# Netscape HTTP Cookie File"]
    for one in cookies:
        prefix = "#HttpOnly_" if one.http_only else ""
        domain = one.domain if one.host_only else "." + one.domain
        flags = "FALSE" if one.host_only else "TRUE", one.path, "TRUE" if one.secure else "FALSE"
        lines.append("\t".join([prefix + domain, *flags, str(one.expires_at or 0), one.name, one.value]))
    return "\n".join(lines) + "\n"


def from_netscape(text: str) -> list[Cookie]:
    """The cookies of a Netscape file; a line that is none is skipped."""
    found = []
    for line in text.splitlines():
        http_only = line.startswith("#HttpOnly_")
        parts = line.removeprefix("#HttpOnly_").split("\t")
        if len(parts) != 7 or parts[0].startswith("#") or not parts[4].isdecimal():
            continue
        domain, everywhere, path, secure, expires, name, value = parts
        found.append(
            Cookie(
                name=name,
                value=value,
                domain=domain.lstrip(".").lower(),
                path=path,
                expires_at=int(expires) or None,
                secure=secure == "TRUE",
                http_only=http_only,
                host_only=everywhere != "TRUE",
            )
        )
    return found


def _cookie(value: Mapping[str, Any]) -> Cookie:
    """From our names or a browser's; raises KeyError or TypeError where it is no cookie."""
    known = {one.name for one in fields(Cookie)}
    out = {name: item for name, item in value.items() if name in known}
    domain = str(value["domain"]).lower()
    expires = value.get("expires_at", value.get("expirationDate", value.get("expires")))
    lasting = isinstance(expires, int | float) and not isinstance(expires, bool) and expires > 0
    return Cookie(
        **out
        | {
            "domain": domain.lstrip("."),
            "host_only": bool(value.get("host_only", value.get("hostOnly", not domain.startswith(".")))),
            "http_only": bool(value.get("http_only", value.get("httpOnly", False))),
            "secure": bool(value.get("secure", False)),
            "expires_at": min(int(expires), FOREVER) if lasting else None,
        }
    )


def _attributes(parts: Iterable[str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for part in parts:
        name, _, value = part.partition("=")
        out[name.strip().lower()] = value.strip()  # the last one counts
    return out


def _expiry(said: Mapping[str, str], now: float) -> int | None:
    """Max-Age before Expires; what is neither lasts until the session ends."""
    age = said.get("max-age", "")
    if age.lstrip("-").isdecimal():
        return min(int(now) + int(age), FOREVER) if not age.startswith("-") and int(age) > 0 else 0
    at = http2time(said["expires"]) if "expires" in said else None
    return None if at is None else max(0, min(int(at), FOREVER))


def _is_allowed(cookie: Cookie, *, secure_origin: bool, says_root: bool) -> bool:
    if _size(cookie) > MAX_COOKIE_BYTES or (cookie.secure and not secure_origin):
        return False
    if cookie.name.startswith("__Host-"):
        return cookie.secure and cookie.host_only and says_root
    return cookie.secure or not cookie.name.startswith("__Secure-")


def _size(cookie: Cookie) -> int:
    return len(cookie.name.encode()) + len(cookie.value.encode())


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
