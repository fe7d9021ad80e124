"""The farm: working, broken and hostile proxies on loopback in one process, with a manifest of their behavior (docs/farm.md).

Each proxy listens on its own address (127.64.x.y) and connects from it, so that the judge sees an exit IP per proxy. Where
only 127.0.0.1 can be bound (macOS), each proxy has its own port instead, and its exit IPs are announced to the judge. The
proxies connect to loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from proxypool.local.farm.certificates import local_certificates
from proxypool.local.farm.connection import ProxyConnection
from proxypool.local.farm.exits import LOOPBACK, Exits
from proxypool.local.farm.judge_server import Judge, abort_all, serve_judge, until_stopped
from proxypool.local.farm.kinds import DEFAULT_MIX, DEFAULT_SLOW, KINDS, Spec, plan, read_mix
from proxypool.network import loop

LOOPBACK6 = "::1"
PROXY_PORT = 8118  # of each address; another one if it is in use
FIRST_PORT = 18_118  # with a single address: a port per proxy, from this one on


class Farm:
    """Proxies that accept connections in the `async with` block.

    `own_addresses`: each proxy has its own loopback address; None: if this machine permits it. If False, `judge` must be the
    judge that checks the proxies. `tls` is the context of https proxies; `intercept_port` is a TLS server whose certificate
    is not the target's.
    """

    def __init__(self, specs: Sequence[Spec], judge: Judge, *,
                 own_addresses: bool | None = None, tls: ssl.SSLContext | None = None,
                 intercept_port: int = 0) -> None:  # fmt: skip
        self.specs = specs
        self.own_addresses = can_bind("127.0.0.2") if own_addresses is None else own_addresses
        self.addresses: list[tuple[str, int]] = []  # host and port of each proxy, in the order of the specs
        self._tls = tls
        self._exits = Exits(specs, judge, own_addresses=self.own_addresses, intercept_port=intercept_port)
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> Farm:
        """Binds all addresses; that of a dead proxy too, so that no other program uses it, but it does not listen."""
        loop = asyncio.get_running_loop()
        port = PROXY_PORT if self.own_addresses else FIRST_PORT
        for index, spec in enumerate(self.specs):
            bound = self._bind(spec, port if self.own_addresses else port + index)
            self._sockets.append(bound)
            self.addresses.append(bound.getsockname()[:2])
            if self.own_addresses and index == 0 and not spec.kind.ipv6:
                port = self.addresses[0][1]
            if spec.kind.listens:
                self._servers.append(
                    await loop.create_server(
                        lambda spec=spec: ProxyConnection(self._exits, spec),
                        sock=bound,
                        ssl=self._tls if spec.kind.protocol == "https" else None,
                    )
                )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stops listening and closes all connections."""
        for server in self._servers:
            server.close()
        for bound in self._sockets:
            bound.close()
        await abort_all(self._exits.transports)

    def _bind(self, spec: Spec, port: int) -> socket.socket:
        bound = socket.socket(socket.AF_INET6 if spec.kind.ipv6 else socket.AF_INET)
        if spec.kind.listens:  # the address of a dead one must not be shared with a farm that listens on it
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

    def lines(self) -> str:
        """The proxies as a source's list, one line per proxy."""
        return "".join(spec.line(*address) + "\n" for spec, address in zip(self.specs, self.addresses, strict=True))

    def entries(self) -> list[dict[str, Any]]:
        """The proxies as the manifest lists them, each with the correct result of a check."""
        return [spec.entry(*address) for spec, address in zip(self.specs, self.addresses, strict=True)]


def can_bind(host: str) -> bool:
    """Whether this machine permits binding the address."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


@contextlib.asynccontextmanager
async def serve_farm(
    folder: Path, specs: Sequence[Spec], *, key: bytes | None, ports: tuple[int, int] = (0, 0),
    own_addresses: bool | None = None,
) -> AsyncIterator[tuple[Farm, tuple[int, int]]]:  # fmt: skip
    """Runs farm and judge in the block, with their certificates in the folder; yields the farm and the judge's two ports."""
    addresses = [spec.exit_ip for spec in specs if spec.kind.protocol == "https"]
    trusted = local_certificates(folder, addresses=addresses).server_context()
    untrusted = local_certificates(folder / "interceptor").server_context()
    judge = Judge(key=key, countries={exit_ip: spec.country for spec in specs for exit_ip in spec.exit_ips})
    async with (
        serve_judge(judge, port=ports[0], https_port=ports[1], context=trusted) as bound,
        serve_judge(judge, port=0, context=untrusted) as (_, intercept_port),
        Farm(specs, judge, own_addresses=own_addresses, tls=trusted, intercept_port=intercept_port) as farm,
    ):
        yield farm, bound


async def run(options: argparse.Namespace) -> None:
    """Runs farm and judge until SIGTERM or Ctrl-C; farm.json is written to the state folder when all accept connections."""
    folder: Path = options.state_dir
    mix = {name: weight for name, weight in options.mix.items() if can_bind(LOOPBACK6) or not KINDS[name].ipv6}
    specs = plan(options.count, mix, options.seed, options.slow)
    key = options.key_file.read_text().strip().encode() if options.key_file else None
    own_addresses = False if options.one_address else None
    ports = (options.judge_port, options.judge_https_port)
    async with serve_farm(folder, specs, key=key, ports=ports, own_addresses=own_addresses) as (farm, bound):
        write_manifest(folder, farm, bound, folder / "ca.pem")
        if options.announce:
            print(
                f"{len(specs)} proxies; their list, the correct check results and the judge: {folder / 'farm.json'}",
                flush=True,
            )
        await until_stopped()


def write_manifest(folder: Path, farm: Farm, ports: tuple[int, int], ca_file: Path) -> None:
    """Writes farm-list.txt and farm.json, the latter atomically."""
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
    """The range of `1,3`: from one to three seconds."""
    low, high = text.split(",")
    return float(low), float(high)


def serve_command(*, folder: Path, count: int, mix: str, seed: int, key_file: Path | None, one_address: bool) -> None:
    """`proxypool farm`: serves until Ctrl-C. Raises ValueError for an invalid mix."""
    folder.mkdir(parents=True, exist_ok=True)
    loop.run(run(argparse.Namespace(
        state_dir=folder, count=count, mix=read_mix(mix), seed=seed, slow=DEFAULT_SLOW, key_file=key_file,
        one_address=one_address, judge_port=0, judge_https_port=0, announce=True,
    )))  # fmt: skip


def main() -> None:
    """The command line of `python -m proxypool.local.farm.server`."""
    parser = argparse.ArgumentParser(description="A farm of proxies on loopback, and its judge.")
    parser.add_argument("--judge-port", type=int, default=0)
    parser.add_argument("--judge-https-port", type=int, default=0)
    parser.add_argument("--key-file", type=Path, help="file with the key that signs the judge's responses")
    parser.add_argument(
        "--state-dir", type=Path, required=True, help="folder for farm.json, the list and the certificates"
    )
    parser.add_argument("-n", "--count", type=int, default=100)
    parser.add_argument("--mix", type=read_mix, default=DEFAULT_MIX, help="for example fast=5,slow=2,dead=1; or all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slow", type=seconds_range, default=DEFAULT_SLOW, help="seconds, for example 1,3")
    parser.add_argument("--one-address", action="store_true", help="as on macOS: 127.0.0.1, one port per proxy")
    parser.set_defaults(announce=False)
    loop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
