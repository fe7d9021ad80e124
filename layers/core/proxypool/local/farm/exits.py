"""Connections from the farm's proxies to their targets, each with the proxy's exit IP as its source address."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from itertools import cycle

from proxypool.local.farm.behavior import Request
from proxypool.local.farm.judge_server import Judge
from proxypool.local.farm.kinds import Spec

LOOPBACK = "127.0.0.1"
NAMES = ("localhost", "judge.test")


def loopback_address(host: str) -> str | None:
    """The loopback address of a target's host, or None: the farm connects to nothing else."""
    if host in NAMES:
        return LOOPBACK
    try:
        return host if ipaddress.IPv4Address(host).is_loopback else None
    except ValueError:
        return None


class Exits:
    """Opens the connections. Without `own_addresses` all have one source address, and `judge` gets the exit IP of each instead.

    `transports` are the farm's open connections, from clients and to targets.
    """

    def __init__(self, specs: Sequence[Spec], judge: Judge, *, own_addresses: bool, intercept_port: int = 0) -> None:
        self.intercept_port = intercept_port
        self.transports: set[asyncio.Transport] = set()
        self._judge, self._own_addresses = judge, own_addresses
        self._exit_ips = {spec.exit_ip: cycle(spec.exit_ips) for spec in specs}

    async def connect(self, spec: Spec, request: Request, protocol: asyncio.Protocol) -> asyncio.Transport:
        """A connection to the request's target, from the proxy's next exit IP. Raises OSError."""
        host = loopback_address(request.host)
        if host is None:
            raise OSError("the farm connects to loopback only")
        loop, outgoing = asyncio.get_running_loop(), socket.socket()
        exit_ip = next(self._exit_ips[spec.exit_ip])
        try:
            outgoing.bind((exit_ip if self._own_addresses else LOOPBACK, 0))
            outgoing.setblocking(False)
            if not self._own_addresses:
                self._judge.announced[outgoing.getsockname()] = exit_ip
            await loop.sock_connect(outgoing, (host, request.port))
            transport, _ = await loop.create_connection(lambda: protocol, sock=outgoing)
        except BaseException:
            self.forget(outgoing.getsockname())
            outgoing.close()
            raise
        return transport

    def forget(self, sockname: tuple[str, int]) -> None:
        """The socket is closed: the operating system may give its port to another program."""
        self._judge.announced.pop(sockname, None)
