"""A source's secret: the Secrets Manager entry that stands for `{secret}` in its URL, its headers and its inline list.

`{secret}` is the entry's text, `{secret:name}` a member of it where it is a JSON object. Read anew at every scrape, so
that a rotated one counts at once; it never becomes part of a row, a message or a log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from proxypool import aws
from proxypool.errors import SourceError

_PLACEHOLDER: Final = re.compile(r"\{secret(?::([A-Za-z0-9_-]{1,64}))?\}")

Fill = Callable[[str], str]


def asks_for_secret(text: str) -> bool:
    """Whether a text has the placeholder."""
    return _PLACEHOLDER.search(text) is not None


def reader(name: str) -> Fill:
    """What puts the secret into a text as it is; without a name texts stay. Raises SourceError where it cannot be read."""
    if not name:
        return lambda text: text
    try:
        with aws.translated():
            secret = aws.client("secretsmanager").get_secret_value(SecretId=name)["SecretString"].strip()
    except (aws.AwsError, KeyError) as error:
        raise SourceError("secret_unreadable") from error
    return lambda text: _PLACEHOLDER.sub(lambda match: _member(secret, match[1]), text)


def in_url(fill: Fill, url: str) -> str:
    """The URL with the secret in it, percent-encoded."""
    return _PLACEHOLDER.sub(lambda match: quote(fill(match[0]), safe=""), url)


def _member(secret: str, name: str | None) -> str:
    text = secret
    if name is not None:
        try:
            text = str(json.loads(secret)[name])
        except (ValueError, KeyError, TypeError) as error:
            raise SourceError("secret_unreadable") from error
    if not text.isprintable():  # a line break would add a header or a row
        raise SourceError("secret_unreadable")
    return text
