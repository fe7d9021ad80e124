"""An issuer of tokens on loopback, and events of API Gateway for requests with a token."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE = "proxypool"
KEY_ID = "key-1"


def token_event(route: str, subject: str, body: object = None, *, name: str = "", **claims: str) -> dict[str, Any]:
    """An HTTP API event (payload 2.0) with a JWT authorizer: claims are strings; `scopes` is null for routes without scopes."""
    method, _, path = route.partition(" ")
    at = int(time.time())  # noqa: TID251 - checked by servers that keep the machine's time
    return {
        "version": "2.0",
        "routeKey": route,
        "rawPath": path.replace("{id}", name),
        "rawQueryString": "",
        "headers": {
            "authorization": "Bearer e30.e30.c2ln",
            "content-type": "application/json",
            "host": "tok123.execute-api.us-east-1.amazonaws.com",
            "x-forwarded-for": "192.0.2.7",
            "x-proxypool-owner": "somebody-else",
        },
        "pathParameters": {"id": name} if name else {},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "tok123",
            "authorizer": {
                "jwt": {
                    "claims": {
                        "aud": AUDIENCE,
                        "exp": str(at + 3600),
                        "iat": str(at),
                        "iss": "https://login.example.com/",
                        "sub": subject,
                        **claims,
                    },
                    "scopes": None,
                }
            },
            "domainName": "tok123.execute-api.us-east-1.amazonaws.com",
            "domainPrefix": "tok123",
            "http": {
                "method": method,
                "path": path.replace("{id}", name),
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.7",
                "userAgent": "curl/8",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": route,
            "stage": "$default",
            "time": "30/Nov/2026:09:00:00 +0000",
            "timeEpoch": at * 1000,
        },
        "isBase64Encoded": False,
        "body": None if body is None else json.dumps(body),
    }


@dataclass(frozen=True, slots=True)
class Issuer:
    """An OpenID Connect issuer; its keys are published at its URL."""

    url: str
    key: rsa.RSAPrivateKey

    def token(self, subject: str, **claims: Any) -> str:
        """A token valid for an hour; `claims` replace the default ones."""
        at = int(time.time())  # noqa: TID251 - checked by servers that keep the machine's time
        body = {"iss": self.url, "aud": AUDIENCE, "sub": subject, "iat": at, "exp": at + 3600} | claims
        text = f"{_coded({'alg': 'RS256', 'typ': 'JWT', 'kid': KEY_ID})}.{_coded(body)}"
        return f"{text}.{_base64(self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


@contextmanager
def an_issuer() -> Iterator[Issuer]:
    """Runs an issuer with a new key while the block runs."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    numbers = key.public_key().public_numbers()
    published = {
        "kty": "RSA",
        "kid": KEY_ID,
        "alg": "RS256",
        "use": "sig",
        "n": _number(numbers.n),
        "e": _number(numbers.e),
    }
    pages: dict[str, Any] = {"/.well-known/jwks.json": {"keys": [published]}}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = json.dumps(pages.get(self.path)).encode()
            self.send_response(200 if self.path in pages else 404)
            self.send_header("content-length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Logs nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        pages["/.well-known/openid-configuration"] = {"issuer": url, "jwks_uri": f"{url}/.well-known/jwks.json"}
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Issuer(url, key)
        server.shutdown()
        thread.join()


def _coded(value: dict[str, Any]) -> str:
    return _base64(json.dumps(value).encode())


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
