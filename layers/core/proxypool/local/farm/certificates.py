"""The judge's HTTPS on loopback: a local authority and one server certificate, kept in the state folder while valid."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from proxypool_client.clock import system as machine_time  # by which TLS libraries judge certificates

LIFETIME = timedelta(days=30)
RENEWED_BEFORE = timedelta(days=2)  # a stack that is left running over a weekend does not lose its judge
NAMES = ("judge.test", "localhost")
ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """PEM files: the authority's certificate (what checkers trust), the server's chain and its private key."""

    ca_file: Path
    chain_file: Path
    key_file: Path

    def server_context(self) -> ssl.SSLContext:
        """A TLS context for the judge's server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain_file, self.key_file)
        return context


def local_certificates(folder: Path, *, addresses: Sequence[str] = ()) -> Certificates:
    """The certificates of this folder, made anew when there are none, or when they end within two days.

    They are good for 127.0.0.1 and for further `addresses` (those of HTTPS proxies).
    """
    wanted = [ADDRESS, *addresses]
    found = Certificates(
        ca_file=folder / "ca.pem", chain_file=folder / "judge-chain.pem", key_file=folder / "judge-key.pem"
    )
    if not _usable(found, wanted):
        folder.mkdir(parents=True, exist_ok=True)
        _make(found, wanted)
    return found


def _usable(found: Certificates, addresses: Sequence[str]) -> bool:
    try:
        server = x509.load_pem_x509_certificate(found.chain_file.read_bytes())
        authority = x509.load_pem_x509_certificate(found.ca_file.read_bytes())
        server.verify_directly_issued_by(authority)
        found.server_context()
        names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if not {ip_address(address) for address in addresses} <= set(names.get_values_for_type(x509.IPAddress)):
            return False
    except Exception:  # a missing, broken or foreign file: each is mended by making them anew
        return False
    return server.not_valid_after_utc > machine_time() + RENEWED_BEFORE


def _make(found: Certificates, addresses: Sequence[str]) -> None:
    """The authority's key is thrown away: it signs this one certificate and nothing else, ever."""
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name, at = _name("proxypool local authority"), machine_time()
    authority = (
        _builder(authority_name, authority_name, authority_key, at)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, SHA256())
    )
    server = (
        _builder(_name("proxypool judge"), authority_name, server_key, at)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_alternative_names(addresses), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, SHA256())
    )
    found.key_file.touch(mode=0o600)
    found.key_file.write_bytes(server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    found.chain_file.write_bytes(server.public_bytes(Encoding.PEM))
    found.ca_file.write_bytes(authority.public_bytes(Encoding.PEM))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, at: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - timedelta(hours=1))
        .not_valid_after(at + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative_names(addresses: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(
        [*(x509.DNSName(name) for name in NAMES), *(x509.IPAddress(ip_address(address)) for address in addresses)]
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
