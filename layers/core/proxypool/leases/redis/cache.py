"""Access to Redis: connections opened on demand, and scripts run by their SHA-1. Every failure becomes Unavailable.

Only `run_again` sends a script a second time, since the first one may have taken effect although its answer was lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from proxypool.errors import RETRY_AFTER_SECONDS, Unavailable
from proxypool.leases.redis import scripts
from proxypool.leases.redis.connection import Address, Connection, ErrorReply
from proxypool.leases.redis.keys import Keys

RETRY_WITHIN_SECONDS: Final = 1.2  # plus 0.8 to connect and 1 to answer: three seconds at most
MAX_CALL_SECONDS: Final = 3  # after this the second try of a call cannot take effect any more
TOKEN_SECONDS: Final = 900  # an IAM token is valid for that long for a new connection
_NEVER_RAN: Final = ("NOAUTH", "WRONGPASS")  # the token has expired: the server did not run the command


class NoAnswer(Unavailable):
    """No answer: the command may or may not have taken effect."""


@dataclass(slots=True, eq=False, repr=False)
class Cache:
    """The Redis of one pool. Each call uses a connection alone; it is reused, or closed if it fails."""

    url: str
    keys: Keys
    user: str = ""
    name: str = ""
    _free: list[Connection] = field(default_factory=list, repr=False)
    _moved: tuple[str, int] | None = field(default=None, repr=False)  # the node that holds the pool's slot

    def run(self, script: str, *args: str | int, key: str = "") -> Any:
        """Runs lua/<script>.lua with these arguments, and loads it if the server does not have it.

        Its declared key is the pool's tag, or `key` for data in another slot.
        """
        text, sha = scripts.source(script)
        with _translated():
            try:
                return self._send("EVALSHA", sha, 1, key or self.keys.tag, *args)
            except ErrorReply as error:
                if error.code != "NOSCRIPT":
                    raise
            return self._send("EVAL", text, 1, key or self.keys.tag, *args)

    def run_again(self, script: str, flag: int | None, *args: str | int) -> Any:
        """Like `run`, but repeated once if the answer was lost, with "1" as argument number `flag` (from 0; None: not repeated).

        The script must recognize a call with that flag as a repetition, also if the first call arrives after it.
        """
        started = time.monotonic()
        try:
            return self.run(script, *args)
        except NoAnswer:
            if flag is None or time.monotonic() - started > RETRY_WITHIN_SECONDS:
                raise
            return self.run(script, *args[:flag], "1", *args[flag + 1 :])

    def command(self, *args: str | int) -> Any:
        """Runs one command; the argument after its name is a key of the pool."""
        with _translated():
            return self._send(*args)

    def close(self) -> None:
        """Closes the connections; the next call opens new ones."""
        while self._free:
            self._free.pop().close()

    def _send(self, *args: str | int) -> Any:
        """Sends a command; again if it certainly did not run: another node holds the slot, or the token has expired."""
        try:
            return self._try(*args)
        except ErrorReply as error:
            if error.code == "MOVED":
                host, _, port = error.rest.rpartition(" ")[2].rpartition(":")
                self._moved = (host or Address.of(self.url).host, int(port))
            elif error.code not in _NEVER_RAN:
                raise
        self.close()
        return self._try(*args)

    def _try(self, *args: str | int) -> Any:
        connection = self._connection()
        try:
            answer = connection.call(*args)
        except ErrorReply:
            self._free.append(connection)
            raise
        except BaseException:
            connection.close()
            self._moved = None  # the cluster may have changed: the next call asks again
            raise
        self._free.append(connection)
        return answer

    def _connection(self) -> Connection:
        while self._free:
            try:
                connection = self._free.pop()
            except IndexError:  # another thread took it
                break
            if not connection.is_stale:
                return connection
            connection.close()
        address = Address.of(self.url)
        if self.user:
            address = replace(address, username=self.user, password=iam_token(self.user, self.name))
        if self._moved:
            address = replace(address, host=self._moved[0], port=self._moved[1])
        return Connection(address)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ErrorReply as error:  # OOM, BUSY, LOADING, READONLY, CLUSTERDOWN
        raise Unavailable(error.code, retry_after_seconds=RETRY_AFTER_SECONDS) from error
    except OSError as error:
        raise NoAnswer(type(error).__name__, retry_after_seconds=RETRY_AFTER_SECONDS) from error


def iam_token(user: str, name: str) -> str:
    """An IAM token of ElastiCache Serverless for one new connection, signed with the function's credentials."""
    from proxypool_client import sigv4  # only for a cache with IAM

    url = sigv4.presign(
        f"http://{name}/?Action=connect&ResourceType=ServerlessCache&User={user}",
        service="elasticache",
        region=os.environ["AWS_REGION"],
        credentials=sigv4.Credentials.from_environment(os.environ),
        expires_seconds=TOKEN_SECONDS,
    )
    return url.removeprefix("http://")
