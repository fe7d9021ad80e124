"""Where a list lies, and how its bytes are had: a URL, the source's own row, an S3 object, a file on a laptop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from proxypool import aws
from proxypool.config.settings import Settings
from proxypool.errors import SourceError
from proxypool.network.address import FORBIDDEN, Networks, Refusal, without_reasons
from proxypool.network.fetch import FetchLimits, fetch
from proxypool.sources import source_secret
from proxypool.sources.record import UPLOADS, Source

MAX_OWN_BYTES: Final = 100_000_000  # of inline lists, files and S3 objects; a URL's are the fetch's
TRUST_UNCHANGED: Final = timedelta(hours=24)  # then the whole list is asked for, whatever its server says of changes
_NOT_MODIFIED: Final = 304


@dataclass(frozen=True, slots=True)
class Body:
    """A list's bytes, None where it has not changed since it was last stored to its end."""

    raw: bytes | None
    etag: str = ""
    last_modified: str = ""

    @property
    def hash(self) -> str:
        """32 hex digits that stand for the bytes."""
        return blake2b(self.raw or b"", digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Reads lists, and keeps copies of those that take several runs."""

    settings: Settings
    networks: Networks = FORBIDDEN

    def load(self, source: Source, now: datetime) -> Body:
        """The source's list; raises SourceError where it cannot be had."""
        may_skip = source.read_at is not None and now - source.read_at < TRUST_UNCHANGED
        fill = source_secret.reader(source.secret)
        if source.url:
            body = self._fetch(source if may_skip else replace(source, etag="", last_modified=""), fill)
        elif source.s3:
            body = self._object(*self.bucket_and_key(source.s3))
        elif source.path:
            body = Body(self._file(source.path))
        else:
            body = Body(fill(source.inline).encode())
        return Body(None) if may_skip and body.raw is not None and body.hash == source.body_hash else body

    def networks_of(self, source: Source) -> Networks:
        """What the source's list and its proxies must not touch."""
        return without_reasons(self.networks, Refusal.PRIVATE) if source.allow_private else self.networks

    def bucket_and_key(self, place: str) -> tuple[str, str]:
        """The bucket and the key of a source's `s3`."""
        if place.startswith(UPLOADS):
            return self.settings.need("bodies_bucket"), place
        bucket, _, key = place.removeprefix("s3://").partition("/")
        return bucket, key

    def keep(self, source: Source, body: Body) -> str:
        """Keeps a copy of a long list; its key is its content: two runs keep one copy."""
        key = f"bodies/{source.source_id}/{body.hash}"
        facts = {"etag": body.etag, "last-modified": body.last_modified}
        bucket = self.settings.need("bodies_bucket")
        aws.client("s3").put_object(Bucket=bucket, Key=key, Body=body.raw or b"", Metadata=facts)
        return key

    def kept(self, key: str) -> Body:
        """The copy under a key; raises SourceError where it is gone."""
        return self._object(self.settings.need("bodies_bucket"), key)

    def _fetch(self, source: Source, fill: source_secret.Fill) -> Body:
        limits = FetchLimits(
            total_seconds=source.timeout_seconds or self.settings.scrape_timeout_seconds,
            allow_http=source.allow_http,
            allow_loopback=self.settings.allow_loopback,
            networks=self.networks_of(source),
        )
        url, headers = source_secret.in_url(fill, source.url), _headers(source, fill)
        validators = {"etag": source.etag, "last_modified": source.last_modified}
        fetched = asyncio.run(fetch(url, limits=limits, headers=headers, **validators))
        if fetched.status != _NOT_MODIFIED:
            return Body(fetched.body, fetched.etag, fetched.last_modified)
        if not any(validators.values()):  # nobody asked: a server that says so for ever would empty the source unsaid
            raise SourceError("http_304", status=_NOT_MODIFIED)
        return Body(None)

    def _object(self, bucket: str, key: str) -> Body:
        try:
            with aws.translated():
                found: Mapping[str, Any] = aws.client("s3").get_object(Bucket=bucket, Key=key)
        except aws.AwsError as error:
            if not error.code:  # no answer: unexpected, and retried as such
                raise
            raise SourceError("no_object" if error.code in ("NoSuchKey", "404") else "object_unreadable") from error
        if found["ContentLength"] > MAX_OWN_BYTES:
            raise SourceError("too_large")
        facts = found.get("Metadata", {})
        return Body(found["Body"].read(), facts.get("etag", ""), facts.get("last-modified", ""))

    def _file(self, path: str) -> bytes:
        if not self.settings.allow_files:
            raise SourceError("files are not allowed")
        try:
            with Path(path).open("rb") as file:
                raw = file.read(MAX_OWN_BYTES + 1)
        except OSError as error:
            raise SourceError("unreadable") from error
        if len(raw) > MAX_OWN_BYTES:
            raise SourceError("too_large")
        return raw


def _headers(source: Source, fill: source_secret.Fill) -> dict[str, str]:
    """The source's headers by lower-case name."""
    pairs = (line.partition(":") for line in source.headers)
    return {name.strip().lower(): fill(value.strip()) for name, _, value in pairs}
