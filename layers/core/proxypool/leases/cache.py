"""The way to Redis: lazily made connections, and the scripts beside this file, run by their hash.

A script is sent twice for one call only by `run_again`: it may have taken effect although its answer was lost. What goes
wrong becomes Unavailable here, once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, Final

from proxypool.errors import RETRY_AFTER_SECONDS, Unavailable
from proxypool.leases.keys import Keys
from proxypool.leases.wire import Address, ErrorReply, Wire

RETRY_WITHIN_SECONDS: Final = 1.2  # and 0.8 to connect, and 1 to the answer: three seconds at most
ANSWER_SECONDS: Final = 3  # from a call to the last moment at which its second try may take effect
TOKEN_SECONDS: Final = 900  # how long ElastiCache takes an IAM token for a new connection
PARTS: Final = {
    "acquire": ("head", "acquire", "choose", "grant"),
    "session_get": ("session_get",),
    "session_put": ("session_put",),
}  # the files that make a script, where these are not the head and its own
_NEVER_RAN: Final = ("NOAUTH", "WRONGPASS")  # the connection has aged out: the server refused before it did anything


class NoAnswer(Unavailable):
    """No answer came: whether the command took effect is unknown."""


@dataclass(slots=True)
class Cache:
    """The Redis of one pool. Each call has a connection to itself, kept for the next; one that fails is thrown away."""

    url: str
    keys: Keys
    user: str = ""
    name: str = ""
    _free: list[Wire] = field(default_factory=list, repr=False)
    _moved: tuple[str, int] | None = field(default=None, repr=False)  # the node that holds the pool's slot

    def run(self, script: str, *args: str | int, key: str = "") -> Any:
        """Runs lua/<script>.lua with these arguments; loads it once where the server does not know it (any more).

        Its one declared key is the pool's tag, or `key` for what lies in a slot of its own.
        """
        text, sha = source(script)
        with _translated():
            try:
                return self._send("EVALSHA", sha, 1, key or self.keys.tag, *args)
            except ErrorReply as error:
                if error.code != "NOSCRIPT":
                    raise
            return self._send("EVAL", text, 1, key or self.keys.tag, *args)

    def run_again(self, script: str, flag: int | None, *args: str | int) -> Any:
        """Like `run`, and once more where the answer was lost: then with "1" as argument number `flag` (from 0; None: not).

        The script must take a call with that flag, and a first one that comes behind it, for one.
        """
        started = time.monotonic()
        try:
            return self.run(script, *args)
        except NoAnswer:
            if flag is None or time.monotonic() - started > RETRY_WITHIN_SECONDS:
                raise
            return self.run(script, *args[:flag], "1", *args[flag + 1 :])

    def command(self, *args: str | int) -> Any:
        """Runs one command; its first argument behind the name is a key of the pool."""
        with _translated():
            return self._send(*args)

    def close(self) -> None:
        """Closes the connections; the next call opens new ones."""
        while self._free:
            self._free.pop().close()

    def _send(self, *args: str | int) -> Any:
        """Sends a command; once more where it certainly did not run: another node holds the slot, the token has aged out."""
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
        wire = self._wire()
        try:
            answer = wire.call(*args)
        except ErrorReply:
            self._free.append(wire)
            raise
        except BaseException:
            wire.close()
            self._moved = None  # what is known of the cluster may be wrong: the next call asks anew
            raise
        self._free.append(wire)
        return answer

    def _wire(self) -> Wire:
        while self._free:
            try:
                wire = self._free.pop()
            except IndexError:  # another thread was quicker
                break
            if not wire.is_stale:
                return wire
            wire.close()
        address = Address.of(self.url)
        if self.user:
            address = replace(address, username=self.user, password=token(self.user, self.name))
        if self._moved:
            address = replace(address, host=self._moved[0], port=self._moved[1])
        return Wire(address)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ErrorReply as error:  # OOM, BUSY, LOADING, READONLY, CLUSTERDOWN: it answers, though with a refusal
        raise Unavailable(error.code, retry_after_seconds=RETRY_AFTER_SECONDS) from error
    except OSError as error:
        raise NoAnswer(type(error).__name__, retry_after_seconds=RETRY_AFTER_SECONDS) from error


@cache
def source(script: str) -> tuple[str, str]:
    """A script's whole text (its first line, then its parts), and its hash as EVALSHA knows it.

    `#!lua` in the first line makes a key of another slot an error everywhere.
    """
    folder = Path(__file__).parent / "lua"
    texts = {name: (folder / f"{name}.lua").read_text(encoding="utf-8") for name in PARTS.get(script, ("head", script))}
    shebang, _, texts[script] = texts[script].partition("\n")
    text = "\n".join((shebang, *texts.values()))
    return text, sha1(text.encode(), usedforsecurity=False).hexdigest()


def token(user: str, name: str) -> str:
    """The IAM token of ElastiCache Serverless, signed with the function's own credentials, for one new connection."""
    from proxypool_client import sigv4  # only where a cache wants tokens

    url = sigv4.presign(
        f"http://{name}/?Action=connect&ResourceType=ServerlessCache&User={user}",
        service="elasticache",
        region=os.environ["AWS_REGION"],
        credentials=sigv4.Credentials.from_environment(os.environ),
        expires_seconds=TOKEN_SECONDS,
    )
    return url.removeprefix("http://")
