"""A TCP proxy in front of Redis that injects faults: one thread per connection, one fault per command."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from itertools import cycle

from proxypool.leases.redis.connection import TIMEOUT_SECONDS, Address

Serve = Callable[[socket.socket], None]
BYTES = 65_536
DELAY_SECONDS = 0.2  # a late response, still within the time limit
DRIPPED_BYTES = 40


class Fault(StrEnum):
    """What happens to a command or to its response."""

    NONE = "none"
    RESET = "reset"  # before the command arrives
    DROP = "drop"  # the response, and the connection
    DELAY = "delay"
    LATE = "late"  # the command arrives after its caller timed out
    SWALLOW = "half-open: the command is lost"
    MUTE = "half-open: the response is lost"
    DRIP = "drip"
    TRUNCATE = "truncate"


OFTEN = {Fault.NONE: 60, Fault.RESET: 4, Fault.DROP: 4, Fault.TRUNCATE: 4}  # the others take their caller a second


@contextmanager
def loopback_server(serve: Serve) -> Iterator[str]:
    """A server on loopback with one thread per connection. Yields its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_: list[tuple[socket.socket, threading.Thread]] = []

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            open_.append((peer, threading.Thread(target=_quietly, args=(serve, peer), daemon=True)))
            open_[-1][1].start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
        for peer, _ in open_:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()
        for _, serving in open_:
            serving.join(2 * TIMEOUT_SECONDS)


def _quietly(serve: Serve, peer: socket.socket) -> None:
    with suppress(OSError):
        serve(peer)


@contextmanager
def faulty_connection(url: str) -> Iterator[tuple[str, Counter[Fault]]]:
    """A proxy to the server that injects a fault into a fifth of the commands, in a shuffled order. Yields its URL and a counter.

    When the block ends, no command is in flight any more.
    """
    faults = [fault for fault in Fault for _ in range(OFTEN.get(fault, 1))]
    random.Random(1).shuffle(faults)
    order, happened, target = cycle(faults), Counter[Fault](), Address.of(url)

    def serve(peer: socket.socket) -> None:
        with socket.create_connection((target.host, target.port)) as server:
            while data := peer.recv(BYTES):
                fault = next(order)
                happened[fault] += 1
                if not _pass(fault, data, server, peer):
                    return

    with loopback_server(serve) as faulty:
        yield faulty, happened


def _pass(fault: Fault, data: bytes, server: socket.socket, peer: socket.socket) -> bool:
    """Forwards one command and its response; returns True if the connection can be used further."""
    if fault is Fault.RESET:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif fault is Fault.SWALLOW:
        _until_closed(peer)
    elif fault is Fault.LATE:
        _until_closed(peer)
        time.sleep(DELAY_SECONDS)
        server.sendall(data)
        server.recv(BYTES)
    else:
        server.sendall(data)
        return _answer(fault, server.recv(BYTES), peer)
    peer.close()
    return False


def _answer(fault: Fault, answer: bytes, peer: socket.socket) -> bool:
    if fault is Fault.DELAY:
        time.sleep(DELAY_SECONDS)
    if fault in (Fault.NONE, Fault.DELAY):
        peer.sendall(answer)
        return True
    if fault is Fault.MUTE:
        _until_closed(peer)
    elif fault is Fault.TRUNCATE:
        peer.sendall(answer[: len(answer) // 2])
    elif fault is Fault.DRIP:
        for at in range(0, len(answer), DRIPPED_BYTES):
            peer.sendall(answer[at : at + DRIPPED_BYTES])
            time.sleep(DELAY_SECONDS / 4)
        return True
    peer.close()
    return False


def _until_closed(peer: socket.socket) -> None:
    """Waits until the peer closes the connection."""
    while peer.recv(BYTES):
        pass
