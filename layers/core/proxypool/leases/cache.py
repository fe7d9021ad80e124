"""The way to Redis: one lazily built client, and the scripts beside this file, run by their hash.

A script is never sent twice for one call: it may have taken effect although its answer was lost. Errors of the vendor
become Unavailable here, once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, Protocol

from redis import Redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.credentials import CredentialProvider
from redis.exceptions import AuthenticationError, NoScriptError, RedisClusterException, RedisError, ResponseError
from redis.retry import Retry

from proxypool.errors import Unavailable
from proxypool.leases.keys import Keys

TIMEOUT_SECONDS = 1.0  # connect and answer; the lease API fails within 3 s
RETRY_AFTER_SECONDS = 5
RETRY_WITHIN_SECONDS = 1.2  # a second try must end before the third second, too
TOKEN_SECONDS = 900  # how long ElastiCache takes an IAM token for a new connection


class Lost(Unavailable):
    """No answer came: whether the command took effect is unknown."""


class Client(Protocol):
    """What the two clients of redis-py have in common, as far as it is used here."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Sends one command."""

    def close(self) -> None:
        """Closes all connections."""


@dataclass(slots=True)
class Cache:
    """The Redis of one pool. Connects at the first call; a connection that the server refuses to know is made anew once."""

    url: str
    keys: Keys
    user: str = ""
    name: str = ""
    _client: Client | None = field(default=None, repr=False)

    def run(self, script: str, *args: str | int) -> Any:
        """Runs lua/<script>.lua with these arguments; loads it once where the server does not know it (any more)."""
        text, sha = source(script)
        with self._translated():
            try:
                return self._send("EVALSHA", sha, 1, self.keys.tag, *args)
            except NoScriptError:
                return self._send("EVAL", text, 1, self.keys.tag, *args)

    def run_again(self, script: str, flag: int, *args: str | int) -> Any:
        """Like `run`, and once more where the answer was lost: then with "1" as argument number `flag` (from 0).

        The script must take a call with that flag, and a first one that comes behind it, for one.
        """
        started = time.monotonic()
        try:
            return self.run(script, *args)
        except Lost:
            if time.monotonic() - started > RETRY_WITHIN_SECONDS:
                raise
            return self.run(script, *args[:flag], "1", *args[flag + 1 :])

    def command(self, *args: str | int) -> Any:
        """Runs one command; its first argument behind the name is a key of the pool."""
        with self._translated():
            return self._send(*args)

    def close(self) -> None:
        """Closes the connections; the next call opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _send(self, *args: Any) -> Any:
        try:
            return self._connected().execute_command(*args)
        except AuthenticationError:  # the token or the connection has aged out: refused before it ran
            self.close()
            return self._connected().execute_command(*args)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except ResponseError as error:  # OOM, BUSY, LOADING, READONLY, CLUSTERDOWN: it answers, though with a refusal
            raise Unavailable(type(error).__name__, retry_after_seconds=RETRY_AFTER_SECONDS) from error
        except (RedisError, RedisClusterException, OSError) as error:
            self.close()  # what the client knows of the cluster may be wrong: the next call asks anew
            raise Lost(type(error).__name__, retry_after_seconds=RETRY_AFTER_SECONDS) from error

    def _connected(self) -> Client:
        if self._client is None:
            self._client = connect(self.url, _Token(self.user, self.name) if self.user else None)
        return self._client


def connect(url: str, credentials: CredentialProvider | None = None) -> Client:
    """A client for the server at a URL: of a cluster if it is one (ElastiCache Serverless always is), else of a single node."""
    options: dict[str, Any] = {
        "decode_responses": True,
        "socket_timeout": TIMEOUT_SECONDS,
        "socket_connect_timeout": TIMEOUT_SECONDS,
        "retry": Retry(NoBackoff(), 0),
        "credential_provider": credentials,
    }
    try:
        return RedisCluster.from_url(url, require_full_coverage=False, **options)
    except RedisClusterException as error:
        if "Cluster mode is not enabled" not in str(error):
            raise
    return Redis.from_url(url, **options)


@cache
def source(script: str) -> tuple[str, str]:
    """A script's whole text, and its hash as EVALSHA knows it. `#!lua` makes a key of another slot an error everywhere."""
    folder = files(__package__) / "lua"
    shebang, _, body = (folder / f"{script}.lua").read_text().partition("\n")
    text = f"{shebang}\n{(folder / 'head.lua').read_text()}{body}"
    return text, sha1(text.encode(), usedforsecurity=False).hexdigest()


class _Token(CredentialProvider):
    """Signs the IAM token of ElastiCache Serverless with the function's own credentials, for each new connection."""

    def __init__(self, user: str, name: str) -> None:
        self._user, self._name = user, name

    def get_credentials(self) -> tuple[str, str]:
        """The user and a token of 15 minutes."""
        from proxypool_client import sigv4  # only where a cache wants tokens

        url = sigv4.presign(
            f"http://{self._name}/?Action=connect&ResourceType=ServerlessCache&User={self._user}",
            service="elasticache",
            region=os.environ["AWS_REGION"],
            credentials=sigv4.Credentials.from_environment(os.environ),
            expires_seconds=TOKEN_SECONDS,
        )
        return self._user, url.removeprefix("http://")
