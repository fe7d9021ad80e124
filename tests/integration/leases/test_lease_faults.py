"""Redis that is away, slow, ill or deaf, and answers that get lost: 503 within three seconds, and never two grants."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from proxypool.config.settings import Settings
from proxypool.errors import Unavailable
from proxypool.leases.index.ready import Index
from proxypool.leases.pool import Pool, Request
from proxypool.leases.redis.cache import MAX_CALL_SECONDS, RETRY_WITHIN_SECONDS, Cache
from proxypool.leases.redis.connection import CONNECT_SECONDS, TIMEOUT_SECONDS, Address, Connection, ErrorReply
from proxypool.local.farm.certificates import local_certificates

from tests.support.faults import Serve, loopback_server
from tests.support.leases import a_pool, a_record, an_event, respond
from tests.support.servers import free_port

SLACK_SECONDS = 20  # three on a machine that is not busy; without a deadline a server that drips takes a minute


def says(text: str) -> Serve:
    """Answers every command with that."""

    def serve(peer: socket.socket) -> None:
        while peer.recv(65_536):
            peer.sendall(text.encode())

    return serve


def silent(peer: socket.socket) -> None:
    """Accepts all input and never responds."""
    while peer.recv(65_536):
        pass


def drips(peer: socket.socket) -> None:
    """Sends a long response, one byte per 0.3 s, so that no single read times out."""
    peer.recv(65_536)
    for byte in b"$1000\r\n" + b"x" * 200:
        peer.sendall(bytes([byte]))
        time.sleep(0.3)


def elsewhere(pool: Pool, url: str) -> Pool:
    """The pool, reached by another way."""
    return replace(pool, cache=Cache(url, pool.cache.keys))


def status_of(pool: Pool) -> tuple[int, float]:
    """The status of an acquire by HTTP, and how many seconds it took."""
    started = time.monotonic()
    response = respond(an_event("POST /leases"), pool, Settings(allow_loopback=True))
    assert "retry-after" in response["headers"]
    return response["statusCode"], time.monotonic() - started


@pytest.mark.parametrize(
    "answer",
    [
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-BUSY Redis is busy running a script.\r\n",
        "-CLUSTERDOWN Hash slot not served\r\n",
        "-MOVED 1 127.0.0.1:1\r\n",
        "-ASK 1 127.0.0.1:1\r\n",
        "-NOAUTH Authentication required.\r\n",
        "-NOSCRIPT No matching script.\r\n",
        "HTTP/1.1 400 Bad Request\r\n",
    ],
    ids=lambda text: text.split()[0],
)
def test_a_server_that_refuses_is_503(valkey_url: str, answer: str) -> None:
    """Input 77, I21: for every error of Redis the caller gets a Retry-After."""
    with loopback_server(says(answer)) as url:
        status, seconds = status_of(elsewhere(a_pool(valkey_url), url))

    assert status == 503
    assert seconds < SLACK_SECONDS


@pytest.mark.parametrize("serve", [silent, drips, lambda peer: peer.close()], ids=["silent", "drips", "hangs up"])
def test_a_server_that_does_not_answer_is_503_within_three_seconds(valkey_url: str, serve: Serve) -> None:
    """Input 77, I21: the retry included; a deadline holds for the whole answer, not for each byte."""
    with loopback_server(serve) as url:
        status, seconds = status_of(elsewhere(a_pool(valkey_url), url))

    assert status == 503
    assert seconds < SLACK_SECONDS


def test_both_attempts_and_a_connection_take_at_most_three_seconds() -> None:
    """I21: the second attempt starts within the first limit; each response and each connection has a limit."""
    assert RETRY_WITHIN_SECONDS + CONNECT_SECONDS + TIMEOUT_SECONDS <= MAX_CALL_SECONDS == 3


def test_a_server_that_is_not_there_is_503(valkey_url: str) -> None:
    """I21."""
    assert status_of(elsewhere(a_pool(valkey_url), f"redis://127.0.0.1:{free_port()}"))[0] == 503


@contextmanager
def a_lossy_way(url: str, *, lose: int, late: threading.Event | None = None) -> Iterator[str]:
    """A way to the server on which the first `lose` answers to scripts get lost behind their effect.

    With `late` the command itself is held back until that event, and nothing is answered.
    """
    left = [lose]
    target = Address.of(url)

    def serve(peer: socket.socket) -> None:
        with socket.create_connection((target.host, target.port)) as server:
            while data := peer.recv(65_536):
                loses = b"EVAL" in data and left[0] > 0
                if loses:
                    left[0] -= 1
                    if late:
                        late.wait(10)
                server.sendall(data)
                answer = server.recv(65_536)
                if loses:
                    peer.close()
                    return
                peer.sendall(answer)

    with loopback_server(serve) as lossy:
        yield lossy


def test_a_lost_answer_never_grants_twice(valkey_url: str) -> None:
    """Input 77, I2: the second try finds what the first one did, with and without a key."""
    pool = a_pool(valkey_url, *(a_record(number) for number in range(4)))
    pool.cache.run("list", "warm", "")  # a NOSCRIPT would be an answer, too
    pool.release("ann", pool.acquire("ann", Request(ttl_seconds=60))[0][0].id)
    for key in ("", "k"):
        with a_lossy_way(valkey_url, lose=1) as url:
            leases, repeated = elsewhere(pool, url).acquire("ann", Request(ttl_seconds=60, count=2), key=key)

        assert repeated
        assert len(leases) == 2
    assert len(pool.list_leases("ann")) == 4


def test_a_first_attempt_that_arrives_after_the_second_has_no_effect(valkey_url: str) -> None:
    """I2, input 77: half-open connections deliver late."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    pool.release("ann", pool.acquire("ann", Request(ttl_seconds=60))[0][0].id)
    late = threading.Event()
    with a_lossy_way(valkey_url, lose=1, late=late) as url:
        leases, _ = elsewhere(pool, url).acquire("ann", Request(ttl_seconds=60))
        length = pool.cache.command("XLEN", pool.cache.keys.journal)
        late.set()
        time.sleep(0.3)

    assert pool.list_leases("ann") == leases
    assert pool.cache.command("XLEN", pool.cache.keys.journal) == length


def test_a_lease_that_may_expire_before_the_second_try_is_requested_once(valkey_url: str) -> None:
    """I2, input 77: it would be granted again, under the id of the ended one."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    pool.release("ann", pool.acquire("ann", Request(ttl_seconds=60))[0][0].id)
    length = pool.cache.command("XLEN", pool.cache.keys.journal)
    with a_lossy_way(valkey_url, lose=1) as url, pytest.raises(Unavailable):
        elsewhere(pool, url).acquire("ann", Request(ttl_seconds=1))

    assert pool.cache.command("XLEN", pool.cache.keys.journal) == length + 1


def test_two_lost_answers_are_an_error_and_leave_one_grant(valkey_url: str) -> None:
    """Input 77: then it is unknown whether leases were granted; the same key finds them."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    pool.release("ann", pool.acquire("ann", Request(ttl_seconds=60))[0][0].id)
    with a_lossy_way(valkey_url, lose=2) as url, pytest.raises(Unavailable):
        elsewhere(pool, url).acquire("ann", Request(ttl_seconds=60), key="k")

    leases, repeated = pool.acquire("ann", Request(ttl_seconds=60), key="k")

    assert repeated
    assert pool.list_leases("ann") == leases


def test_out_of_memory_refuses_grants_and_accepts_releases(valkey_url: str) -> None:
    """Input 77: OOM refuses commands that need memory; release and expiry work."""
    pool = a_pool(valkey_url, a_record(1), a_record(2))
    lease = pool.acquire("ann", Request(ttl_seconds=60))[0][0]
    pool.cache.command("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(Unavailable, match="OOM"):
            pool.acquire("ann", Request(ttl_seconds=60))
        with pytest.raises(Unavailable, match="OOM"):
            Index(pool.cache, 3600).upsert([a_record(3)])
        pool.renew("ann", lease.id, 70)
        pool.release("ann", lease.id)
        pool.cache.run("expire", 10)
        assert pool.list_leases("ann") == []
    finally:
        pool.cache.command("CONFIG", "SET", "maxmemory", "0")

    assert len(pool.acquire("ann", Request(ttl_seconds=60, count=2))[0]) == 2


def test_a_slot_that_has_moved_is_followed(valkey_url: str) -> None:
    """Input 77: MOVED names the node; later calls go there at once."""
    pool = a_pool(valkey_url, a_record(1))
    port = valkey_url.rpartition(":")[2]
    asked: list[bytes] = []

    def serve(peer: socket.socket) -> None:
        while data := peer.recv(65_536):
            asked.append(data)
            peer.sendall(f"-MOVED 7 127.0.0.1:{port}\r\n".encode())

    with loopback_server(serve) as url:
        moved = elsewhere(pool, url)
        for _ in range(3):
            moved.release("ann", moved.acquire("ann", Request(ttl_seconds=60))[0][0].id)

    assert len(asked) == 1


def test_a_connection_that_the_server_closed_is_not_used(valkey_url: str) -> None:
    """A frozen function wakes up to dead connections: no caller pays for that."""
    pool = a_pool(valkey_url, a_record(1))
    pool.cache.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
    while not all(wire.is_stale for wire in pool.cache._free):
        time.sleep(0.01)

    assert pool.acquire("ann", Request(ttl_seconds=60))


def test_an_error_inside_of_a_list_leaves_the_connection_usable(valkey_url: str) -> None:
    """The protocol's answers, as the server really sends them."""
    connection = Connection(Address.of(valkey_url))
    try:
        with pytest.raises(ErrorReply, match="boom"):
            connection.call("EVAL", "#!lua\nreturn {1, redis.error_reply('boom now'), {'a', false, {}}}", 0)
        assert connection.call("EVAL", "#!lua\nreturn {1, {'ä', false, {}}, redis.status_reply('OK')}", 0) == [
            1,
            ["ä", None, []],
            "OK",
        ]
        assert connection.call("EVAL", "#!lua\nreturn string.rep('x', 200000)", 0) == "x" * 200_000
        assert connection.call("HGETALL", "{none}") == []
    finally:
        connection.close()


def test_a_password_is_sent_first_and_never_shown(valkey_url: str) -> None:
    """I19: credentials of the URL go into AUTH; an error names none."""
    said: list[bytes] = []

    def serve(peer: socket.socket) -> None:
        while data := peer.recv(65_536):
            said.append(data)
            peer.sendall(b"-WRONGPASS invalid username-password pair\r\n")

    with loopback_server(serve) as url:
        pool = elsewhere(a_pool(valkey_url), url.replace("redis://", "redis://us%40er:p%3Aw@"))
        with pytest.raises(Unavailable) as refusal:
            pool.acquire("ann", Request(ttl_seconds=60))

    assert b"AUTH\r\n$5\r\nus@er\r\n$3\r\np:w" in said[0]
    assert "p:w" not in str(refusal.value) + repr(refusal.value.__cause__)


def test_a_cache_with_tls_is_verified(valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I21, I19: required by a serverless cache; a certificate of an unknown authority is refused."""
    files = local_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.chain_file, files.key_file)
    target = Address.of(valkey_url)

    def serve(peer: socket.socket) -> None:
        with (
            context.wrap_socket(peer, server_side=True) as tls,
            socket.create_connection((target.host, target.port)) as server,
        ):
            while data := tls.recv(65_536):
                server.sendall(data)
                tls.sendall(server.recv(65_536))

    pool = a_pool(valkey_url, a_record(1))
    pool.release("ann", pool.acquire("ann", Request(ttl_seconds=60))[0][0].id)  # the scripts are loaded: short commands
    assert pool.list_leases("ann") == []
    with loopback_server(serve) as url:
        secured = elsewhere(pool, url.replace("redis://", "rediss://"))
        with pytest.raises(Unavailable):
            secured.list_leases("ann")
        monkeypatch.setenv("SSL_CERT_FILE", str(files.ca_file))

        leases = [secured.acquire("ann", Request(ttl_seconds=60))[0][0]]
        wires = list(secured.cache._free)
        assert secured.list_leases("ann") == leases
        assert secured.cache._free == wires
        secured.cache.close()
