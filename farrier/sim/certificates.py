"""A certificate authority for simulated services, made in memory and valid for days."""

from __future__ import annotations

from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# This is long enough for a demo that runs for days, and too short to be relied on.
LIFETIME = timedelta(days=30)
# The clock of the client or server may be a little behind.
BACKDATED = timedelta(minutes=5)


class ServerFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The paths of a server's certificate and key, in PEM."""

    certificate: Path
    key: Path


class Authority:
    """A CA with one key pair, which signs all certificates as if the time were `now`."""

    def __init__(self, name: str, *, now: datetime) -> None:
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        public = self._key.public_key()
        self._certificate = (
            self._builder(self._name, public, lifetime=LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def write(self, path: Path) -> Path:
        """Write the CA's certificate, which clients should trust. Returns its path."""
        path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def issue(self, directory: Path, *, hosts: tuple[str, ...], lifetime: timedelta = LIFETIME) -> ServerFiles:
        """Write a server's certificate and key for `hosts`. If `lifetime` is negative, the certificate has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            self._builder(_named(hosts[0]), key.public_key(), lifetime=lifetime)
            .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        files = ServerFiles(certificate=directory / "server.crt", key=directory / "server.key")
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files.key.touch(mode=0o600)
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files

    def _builder(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey, *, lifetime: timedelta
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - BACKDATED - max(-lifetime, timedelta()))
            .not_valid_after(self._now + lifetime)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
