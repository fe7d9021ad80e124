"""Secrets of sources: replaces `{secret}` in the URL, headers and inline list of a source by a Secrets Manager secret.

`{secret}` is the whole secret, `{secret:name}` a member if it is a JSON object. The secret is read at every scrape, so that
a rotation takes effect at once; it is never part of a row, a message or a log.
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

PlaceholderFiller = Callable[[str], str]
"""Replaces the placeholders in a text."""


def has_placeholder(text: str) -> bool:
    """True if the text contains a placeholder."""
    return _PLACEHOLDER.search(text) is not None


def placeholder_filler(name: str) -> PlaceholderFiller:
    """Reads a secret and returns the function that fills it in; without a name that returns texts unchanged. Raises SourceError."""
    if not name:
        return lambda text: text
    try:
        with aws.translate_errors():
            secret = aws.client("secretsmanager").get_secret_value(SecretId=name)["SecretString"].strip()
    except (aws.AwsError, KeyError) as error:
        raise SourceError("secret_unreadable") from error
    return lambda text: _PLACEHOLDER.sub(lambda match: _member(secret, match[1]), text)


def fill_url(fill: PlaceholderFiller, url: str) -> str:
    """The URL with its placeholders replaced, percent-encoded."""
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
