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
RENEWED_BEFORE = timedelta(days=2)  # a stack that runs for days must not lose its judge
NAMES = ("judge.test", "localhost")
ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """PEM files: the authority's certificate (trusted by checkers), the server's certificate chain and its private key."""

    ca_file: Path
    chain_file: Path
    key_file: Path

    def server_context(self) -> ssl.SSLContext:
        """A TLS context for the judge's server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain_file, self.key_file)
        return context


def local_certificates(folder: Path, *, addresses: Sequence[str] = ()) -> Certificates:
    """The certificates of this folder, created if they are missing or invalid, or expire within two days.

    They are valid for 127.0.0.1 and for `addresses` (those of HTTPS proxies).
    """
    wanted = [ADDRESS, *addresses]
    certificates = Certificates(
        ca_file=folder / "ca.pem", chain_file=folder / "judge-chain.pem", key_file=folder / "judge-key.pem"
    )
    if not _usable(certificates, wanted):
        folder.mkdir(parents=True, exist_ok=True)
        _make(certificates, wanted)
    return certificates


def _usable(files: Certificates, addresses: Sequence[str]) -> bool:
    try:
        server = x509.load_pem_x509_certificate(files.chain_file.read_bytes())
        authority = x509.load_pem_x509_certificate(files.ca_file.read_bytes())
        server.verify_directly_issued_by(authority)
        files.server_context()
        names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if not {ip_address(address) for address in addresses} <= set(names.get_values_for_type(x509.IPAddress)):
            return False
    except Exception:  # a missing or invalid file: all are created again
        return False
    return server.not_valid_after_utc > machine_time() + RENEWED_BEFORE


def _make(files: Certificates, addresses: Sequence[str]) -> None:
    """Creates the files. The authority's private key is not stored: it signs this one certificate only."""
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
    files.key_file.touch(mode=0o600)
    files.key_file.write_bytes(server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files.chain_file.write_bytes(server.public_bytes(Encoding.PEM))
    files.ca_file.write_bytes(authority.public_bytes(Encoding.PEM))


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
