"""The farm: real proxies on loopback in one process, good and hostile ones, whose truth the manifest tells (docs/farm.md).

Each proxy listens on an address of its own (127.64.x.y) and connects from it, so that the judge sees as many exits as
there are proxies. Where only 127.0.0.1 can be bound (macOS) each has a port instead, and the judge is told how its
connections count. No proxy connects anywhere but to loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ipaddress
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from proxypool.local.farm.behavior import Request
from proxypool.local.farm.certificates import local_certificates
from proxypool.local.farm.connection import ProxyConnection, Upstream
from proxypool.local.farm.judge_server import Judge, end, serve_judge, until_stopped
from proxypool.local.farm.kinds import DEFAULT_MIX, DEFAULT_SLOW, KINDS, Spec, plan, read_mix
from proxypool.network import loop

LOOPBACK, LOOPBACK6 = "127.0.0.1", "::1"
PROXY_PORT = 8118  # of each address; another one where it is taken
FIRST_PORT = 18_118  # of the one address, a port per proxy
NAMES = ("localhost", "judge.test")


def loopback_of(host: str) -> str | None:
    """The loopback address to connect to, or None: the farm goes nowhere else."""
    if host in NAMES:
        return LOOPBACK
    try:
        return host if ipaddress.IPv4Address(host).is_loopback else None
    except ValueError:
        return None


class Farm:
    """Proxies that listen while the `async with` block runs.

    `own_addresses` None: as this machine can. Where it is False, `judge` must be the one that the proxies are to reach.
    `tls` is what https proxies show; at `intercept_port` an end of TLS listens that is not the target's.
    """

    def __init__(self, specs: Sequence[Spec], judge: Judge, *,
                 own_addresses: bool | None = None, tls: ssl.SSLContext | None = None,
                 intercept_port: int = 0) -> None:  # fmt: skip
        self.specs = specs
        self.intercept_port = intercept_port
        self.own_addresses = can_bind("127.0.0.2") if own_addresses is None else own_addresses
        self.places: list[tuple[str, int]] = []  # where each proxy listens, in the specs' order
        self._judge, self._tls = judge, tls
        self._turns = {spec.exit_ip: cycle(spec.exit_ips) for spec in specs}
        self.transports: set[asyncio.Transport] = set()  # of clients and targets, while they are open
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> Farm:
        """Binds all; a dead proxy's port is bound too, so that nobody else answers there, but never listens."""
        loop = asyncio.get_running_loop()
        port = PROXY_PORT if self.own_addresses else FIRST_PORT
        for index, spec in enumerate(self.specs):
            bound = self._bind(spec, port if self.own_addresses else port + index)
            self._sockets.append(bound)
            self.places.append(bound.getsockname()[:2])
            if self.own_addresses and index == 0 and not spec.kind.ipv6:
                port = self.places[0][1]
            if spec.kind.listens:
                self._servers.append(
                    await loop.create_server(
                        lambda spec=spec: ProxyConnection(self, spec),
                        sock=bound,
                        ssl=self._tls if spec.kind.protocol == "https" else None,
                    )
                )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends listening and what is still open."""
        for server in self._servers:
            server.close()
        for bound in self._sockets:
            bound.close()
        await end(self.transports)

    def _bind(self, spec: Spec, port: int) -> socket.socket:
        bound = socket.socket(socket.AF_INET6 if spec.kind.ipv6 else socket.AF_INET)
        if spec.kind.listens:  # a dead one's address is not to be shared with a farm that listens on it
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        host = LOOPBACK6 if spec.kind.ipv6 else spec.exit_ip if self.own_addresses else LOOPBACK
        try:
            bound.bind((host, 0 if spec.kind.ipv6 else port))
            if spec.kind.listens:
                bound.listen()  # two farms may bind one address; only one may listen
        except OSError:
            bound.close()
            return self._bind(spec, 0)
        return bound

    async def connect(self, spec: Spec, request: Request, upstream: Upstream) -> asyncio.Transport:
        """A connection to the request's target, seen there as the proxy's exit. Raises OSError."""
        host = loopback_of(request.host)
        if host is None:
            raise OSError("the farm connects to loopback alone")
        loop, outgoing = asyncio.get_running_loop(), socket.socket()
        exit_ip = next(self._turns[spec.exit_ip])
        try:
            outgoing.bind((exit_ip if self.own_addresses else LOOPBACK, 0))
            outgoing.setblocking(False)
            self._announce(outgoing, exit_ip)
            await loop.sock_connect(outgoing, (host, request.port))
            transport, _ = await loop.create_connection(lambda: upstream, sock=outgoing)
        except BaseException:
            self._judge.announced.pop(outgoing.getsockname(), None)
            outgoing.close()
            raise
        return transport

    def _announce(self, outgoing: socket.socket, exit_ip: str) -> None:
        """Has the judge count what comes from this socket as that exit, where it does not show by itself."""
        if not self.own_addresses:
            self._judge.announced[outgoing.getsockname()] = exit_ip

    def forget(self, sockname: tuple[str, int]) -> None:
        """The socket is closed: the system gives its port to a stranger some day."""
        self._judge.announced.pop(sockname, None)

    def lines(self) -> str:
        """The list that a source has: one line per proxy."""
        return "".join(spec.line(*place) + "\n" for spec, place in zip(self.specs, self.places, strict=True))

    def entries(self) -> list[dict[str, Any]]:
        """The manifest's proxies, with the truth about each."""
        return [spec.entry(*place) for spec, place in zip(self.specs, self.places, strict=True)]


def can_bind(host: str) -> bool:
    """Whether this machine lets us listen on the address."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
        try:
            tried.bind((host, 0))
        except OSError:
            return False
    return True


@contextlib.asynccontextmanager
async def growing(
    folder: Path, specs: Sequence[Spec], *, key: bytes | None, ports: tuple[int, int] = (0, 0),
    own_addresses: bool | None = None,
) -> AsyncIterator[tuple[Farm, tuple[int, int]]]:  # fmt: skip
    """Farm and judge while the block runs, their certificates in the folder; yields the farm and the judge's ports."""
    shown = [spec.exit_ip for spec in specs if spec.kind.protocol == "https"]
    ours = local_certificates(folder, addresses=shown).server_context()
    theirs = local_certificates(folder / "interceptor").server_context()
    judge = Judge(key=key, places={exit_ip: spec.country for spec in specs for exit_ip in spec.exit_ips})
    async with (
        serve_judge(judge, port=ports[0], https_port=ports[1], context=ours) as bound,
        serve_judge(judge, port=0, context=theirs) as (_, intercept_port),
        Farm(specs, judge, own_addresses=own_addresses, tls=ours, intercept_port=intercept_port) as farm,
    ):
        yield farm, bound


async def run(options: argparse.Namespace) -> None:
    """Farm and judge until SIGTERM or Ctrl-C; farm.json appears in the state folder when all listen."""
    folder: Path = options.state_dir
    mix = {name: weight for name, weight in options.mix.items() if can_bind(LOOPBACK6) or not KINDS[name].ipv6}
    specs = plan(options.count, mix, options.seed, options.slow)
    key = options.key_file.read_text().strip().encode() if options.key_file else None
    own_addresses = False if options.one_address else None
    ports = (options.judge_port, options.judge_https_port)
    async with growing(folder, specs, key=key, ports=ports, own_addresses=own_addresses) as (farm, bound):
        write_manifest(folder, farm, bound, folder / "ca.pem")
        if options.told:
            print(f"{len(specs)} proxies; their list, their truth and the judge: {folder / 'farm.json'}", flush=True)
        await until_stopped()


def write_manifest(folder: Path, farm: Farm, ports: tuple[int, int], ca_file: Path) -> None:
    """Writes farm-list.txt and farm.json, the latter in one step: who sees it sees all of it."""
    list_file, unfinished = folder / "farm-list.txt", folder / "farm.json.part"
    list_file.write_text(farm.lines())
    manifest = {
        "pid": os.getpid(),
        "judge_url": f"http://{LOOPBACK}:{ports[0]}/",
        "judge_https_url": f"https://{LOOPBACK}:{ports[1]}/",
        "ca_file": str(ca_file),
        "list_file": str(list_file),
        "proxies": farm.entries(),
    }
    unfinished.touch(mode=0o600)
    unfinished.write_text(json.dumps(manifest, indent=1))
    unfinished.replace(folder / "farm.json")


def seconds_range(text: str) -> tuple[float, float]:
    """`1,3`: from one to three seconds."""
    least, most = text.split(",")
    return float(least), float(most)


def serve_command(*, folder: Path, count: int, mix: str, seed: int, key_file: Path | None, one_address: bool) -> None:
    """`proxypool farm`: serves until Ctrl-C. Raises ValueError for a mix that cannot be read."""
    folder.mkdir(parents=True, exist_ok=True)
    loop.run(run(argparse.Namespace(
        state_dir=folder, count=count, mix=read_mix(mix), seed=seed, slow=DEFAULT_SLOW, key_file=key_file,
        one_address=one_address, judge_port=0, judge_https_port=0, told=True,
    )))  # fmt: skip


def main() -> None:
    """The command line of `python -m proxypool.local.farm.server`."""
    parser = argparse.ArgumentParser(description="A farm of proxies on loopback, and its judge.")
    parser.add_argument("--judge-port", type=int, default=0)
    parser.add_argument("--judge-https-port", type=int, default=0)
    parser.add_argument("--key-file", type=Path, help="the text that signs the judge's answers")
    parser.add_argument("--state-dir", type=Path, required=True, help="for farm.json, the list and certificates")
    parser.add_argument("-n", "--count", type=int, default=100)
    parser.add_argument("--mix", type=read_mix, default=DEFAULT_MIX, help="for example fast=5,slow=2,dead=1; or all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slow", type=seconds_range, default=DEFAULT_SLOW, help="seconds, for example 1,3")
    parser.add_argument("--one-address", action="store_true", help="as on macOS: 127.0.0.1, one port per proxy")
    parser.set_defaults(told=False)
    loop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
