"""The client against a real HTTP server on loopback: one lease however often the answer is lost, blame where it belongs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from proxypool_client import LeaseLost, Pool, PoolEmpty, Unreachable
from proxypool_client.pool import blame

LEASE = {
    "id": "a.1", "proxy_id": "b", "proxy_url": "http://u:s3cret@198.51.100.1:80", "protocol": "http", "exit_ip": "198.51.100.1",
    "country": "us", "anonymity": "elite", "score": 0.5, "fence": "1-0", "expires_at": "2026-11-30T12:00:00.000Z", "ttl_seconds": 60,
}  # fmt: skip


class Service:
    """Answers from a script and keeps what it was asked; "drop" ends the connection without an answer."""

    def __init__(self) -> None:
        self.script: list[Any] = []
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.url = ""


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            found.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            answer = found.script.pop(0)
            if answer == "drop":
                return
            status, value, headers = answer
            raw = json.dumps(value).encode() if value is not None else b""
            self.send_response(status)
            for name, text in {"content-length": str(len(raw)), **headers}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def test_a_lost_answer_is_asked_for_again_with_the_same_key(service: Service) -> None:
    """I2, input 58."""
    service.script = ["drop", (200, LEASE, {})]
    with Pool(service.url) as pool:
        lease = pool.acquire(country="us")
    assert lease.id == "a.1"
    assert len({headers["idempotency-key"] for _, _, headers, _ in service.asked}) == 1
    assert [body for *_, body in service.asked] == [{"country": "us"}] * 2


def test_an_empty_pool_says_why_and_is_asked_again_within_the_wait(service: Service) -> None:
    """Input 65, case 33."""
    empty = (409, {"type": "pool_empty", "title": "none", "reasons": {"leased": 3}}, {"retry-after": "1"})
    service.script = [empty, (201, LEASE, {}), empty]
    with Pool(service.url) as pool:
        assert pool.acquire(wait_seconds=5).id == "a.1"
        with pytest.raises(PoolEmpty) as caught:
            pool.acquire()
    assert caught.value.reasons == {"leased": 3}


def test_a_lease_that_is_over_is_lost(service: Service) -> None:
    """I3."""
    service.script = [(404, {"type": "not_found", "title": "no"}, {})]
    with Pool(service.url) as pool, pytest.raises(LeaseLost):
        pool.release("a.1")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(None, {"outcome": "ok"}), (KeyError("mine"), {}), (httpx.ProxyError("no"), {"outcome": "proxy_error"})],
)
def test_a_block_gives_its_lease_back_with_the_outcome_that_is_the_proxys(
    service: Service, error: Exception | None, outcome: object
) -> None:
    service.script = [(201, LEASE, {}), (204, None, {})]

    def work() -> None:
        with Pool(service.url) as pool, pool.lease():
            if error:
                raise error

    if error:
        with pytest.raises(type(error)):
            work()
    else:
        work()
    assert service.asked[-1][1] == "/leases/a.1/release"
    assert service.asked[-1][3] == outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (httpx.ReadTimeout(""), "timeout"),
        (httpx.ConnectError(""), "proxy_error"),
        (httpx.UnsupportedProtocol(""), ""),
        (httpx.InvalidURL(""), ""),
    ],
)
def test_only_what_the_proxy_did_is_its_fault(error: Exception, outcome: str) -> None:
    assert blame(error) == outcome


def test_a_lease_shows_no_password(service: Service) -> None:
    """I19, case 36."""
    service.script = [(201, LEASE, {})]
    with Pool(service.url) as pool:
        assert "s3cret" not in repr(pool.acquire())


def test_nobody_there_is_unreachable_not_a_crash() -> None:
    with Pool("http://127.0.0.1:9") as pool, pytest.raises(Unreachable):
        pool.acquire()


def test_the_environments_proxy_is_not_used_for_the_api(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input 50."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    service.script = [(201, LEASE, {})]
    with Pool(service.url) as pool:
        assert pool.acquire().id == "a.1"
