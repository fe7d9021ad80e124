"""Loads the list of a source: from a URL, the row of the source, an S3 object or a local file."""

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
from proxypool.network.address import FORBIDDEN_NETWORKS, Networks, Refusal, without_reasons
from proxypool.network.fetch import FetchLimits, fetch
from proxypool.sources import source_secret
from proxypool.sources.record import UPLOADS, Source

MAX_OBJECT_BYTES: Final = 100_000_000  # of files and S3 objects; URLs have the limits of the fetch
TRUST_UNCHANGED: Final = timedelta(hours=24)  # after that a full list is requested, without validators
_NOT_MODIFIED: Final = 304


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes of a list; None if it is unchanged since it was last stored completely."""

    raw: bytes | None
    etag: str = ""
    last_modified: str = ""

    @property
    def hash(self) -> str:
        """Hash of the bytes, 32 hex digits."""
        return blake2b(self.raw or b"", digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLoader:
    """Loads lists, and stores copies of lists that take several runs."""

    settings: Settings
    networks: Networks = FORBIDDEN_NETWORKS

    def load(self, source: Source, now: datetime) -> Body:
        """Loads the list of a source; raises SourceError."""
        may_skip = source.read_at is not None and now - source.read_at < TRUST_UNCHANGED
        fill = source_secret.placeholder_filler(source.secret)
        if source.url:
            body = self._fetch(source if may_skip else replace(source, etag="", last_modified=""), fill)
        elif source.s3:
            body = self._load_object(*self.bucket_and_key(source.s3))
        elif source.path:
            body = Body(self._load_file(source.path))
        else:
            body = Body(fill(source.inline).encode())
        return Body(None) if may_skip and body.raw is not None and body.hash == source.body_hash else body

    def forbidden_networks(self, source: Source) -> Networks:
        """Networks that are forbidden for the list URL and the proxies of the source."""
        return without_reasons(self.networks, Refusal.PRIVATE) if source.allow_private else self.networks

    def bucket_and_key(self, location: str) -> tuple[str, str]:
        """Bucket and key of the `s3` location of a source."""
        if location.startswith(UPLOADS):
            return self.settings.need("bodies_bucket"), location
        bucket, _, key = location.removeprefix("s3://").partition("/")
        return bucket, key

    def store_copy(self, source: Source, body: Body) -> str:
        """Stores a copy of a long list and returns its key, a hash of the content."""
        key = f"bodies/{source.source_id}/{body.hash}"
        metadata = {"etag": body.etag, "last-modified": body.last_modified}
        bucket = self.settings.need("bodies_bucket")
        aws.client("s3").put_object(Bucket=bucket, Key=key, Body=body.raw or b"", Metadata=metadata)
        return key

    def load_copy(self, key: str) -> Body:
        """Loads a stored copy; raises SourceError if it does not exist."""
        return self._load_object(self.settings.need("bodies_bucket"), key)

    def _fetch(self, source: Source, fill: source_secret.PlaceholderFiller) -> Body:
        limits = FetchLimits(
            total_seconds=source.timeout_seconds or self.settings.scrape_timeout_seconds,
            allow_http=source.allow_http,
            allow_loopback=self.settings.allow_loopback,
            networks=self.forbidden_networks(source),
        )
        url, headers = source_secret.fill_url(fill, source.url), _headers(source, fill)
        validators = {"etag": source.etag, "last_modified": source.last_modified}
        fetched = asyncio.run(fetch(url, limits=limits, headers=headers, **validators))
        if fetched.status != _NOT_MODIFIED:
            return Body(fetched.body, fetched.etag, fetched.last_modified)
        if not any(validators.values()):  # unsolicited: accepting it would hide that the list is never read
            raise SourceError("http_304", status=_NOT_MODIFIED)
        return Body(None)

    def _load_object(self, bucket: str, key: str) -> Body:
        try:
            with aws.translate_errors():
                response: Mapping[str, Any] = aws.client("s3").get_object(Bucket=bucket, Key=key)
        except aws.AwsError as error:
            if not error.code:  # no response: retried like unexpected errors
                raise
            raise SourceError("no_object" if error.code in ("NoSuchKey", "404") else "object_unreadable") from error
        if response["ContentLength"] > MAX_OBJECT_BYTES:
            raise SourceError("too_large")
        metadata = response.get("Metadata", {})
        return Body(response["Body"].read(), metadata.get("etag", ""), metadata.get("last-modified", ""))

    def _load_file(self, path: str) -> bytes:
        if not self.settings.allow_files:
            raise SourceError("files are not allowed")
        try:
            with Path(path).open("rb") as file:
                raw = file.read(MAX_OBJECT_BYTES + 1)
        except OSError as error:
            raise SourceError("unreadable") from error
        if len(raw) > MAX_OBJECT_BYTES:
            raise SourceError("too_large")
        return raw


def _headers(source: Source, fill: source_secret.PlaceholderFiller) -> dict[str, str]:
    """The source's headers by lower-case name."""
    pairs = (line.partition(":") for line in source.headers)
    return {name.strip().lower(): fill(value.strip()) for name, _, value in pairs}
