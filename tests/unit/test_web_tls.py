"""The files of the server's certificate: an error names their fault, and a running server keeps its certificate."""

from __future__ import annotations

import shutil
import ssl
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from farrier import clock
from farrier.config import HttpConfig
from farrier.errors import ConfigError
from farrier.sim.certificates import Authority, ServerFiles
from farrier.web.server.tls import Certificate

AUTHORITY = Authority("test", now=clock.wall())


@pytest.fixture
def files(tmp_path: Path) -> ServerFiles:
    return AUTHORITY.issue(tmp_path, hosts=("127.0.0.1",))


def test_unusable_files_are_refused_with_the_setting_and_the_path(files: ServerFiles, tmp_path: Path) -> None:
    cert, key, other = str(files.certificate), str(files.key), str(tmp_path / "other.pem")
    with pytest.raises(ConfigError, match=r"http.tls_cert: '.*other.pem' cannot be read: No such file"):
        Certificate(other, key)
    with pytest.raises(ConfigError, match=r"http.tls_key: '.*other.pem' cannot be read: No such file"):
        Certificate(cert, other)
    Path(other).write_text("no PEM")
    with pytest.raises(ConfigError, match="expected a certificate and its key in PEM, without a password") as refused:
        Certificate(cert, other)
    assert "\n" not in str(refused.value)


def test_a_pair_that_does_not_match_is_refused_and_the_present_certificate_stays(
    files: ServerFiles, tmp_path: Path
) -> None:
    served = Certificate(str(files.certificate), str(files.key))
    (tmp_path / "second").mkdir()
    other = AUTHORITY.issue(tmp_path / "second", hosts=("127.0.0.1",))
    shutil.copy(other.certificate, files.certificate)
    with pytest.raises(ConfigError, match="KEY_VALUES_MISMATCH"):
        served.reload()
    shutil.copy(other.key, files.key)
    served.reload()


def test_a_certificate_that_each_client_refuses_is_loaded_and_has_a_fault(tmp_path: Path) -> None:
    now, day = clock.wall(), timedelta(days=1)
    faults = []
    for authority, lifetime in (
        (AUTHORITY, day),
        (AUTHORITY, -day),
        (Authority("later", now=now + day), 2 * day),
    ):
        made = authority.issue(tmp_path, hosts=("127.0.0.1",), lifetime=lifetime)
        faults.append(Certificate(str(made.certificate), str(made.key)).fault())
    assert faults == [None, "certificate has expired", "certificate is not yet valid"]


def self_signed(directory: Path, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    """Write a new certificate of this key and the key itself, and return the certificate in DER."""
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "farrier")]), clock.wall()
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1)
    )
    signed = made.sign(key, hashes.SHA256())
    (directory / "cert.pem").write_bytes(signed.public_bytes(Encoding.PEM))
    (directory / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return signed.public_bytes(Encoding.DER)


def seen_by_a_client(certificate: Certificate) -> bytes | None:
    """The certificate that a client gets in a handshake in memory."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = certificate.context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.getpeercert(binary_form=True)


def test_a_renewed_certificate_is_served_even_if_its_key_has_another_type(tmp_path: Path) -> None:
    self_signed(tmp_path, ec.generate_private_key(ec.SECP256R1()))
    served = Certificate(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    renewed = self_signed(tmp_path, rsa.generate_private_key(65537, 2048))
    served.reload()
    assert (seen_by_a_client(served), served.fault()) == (renewed, None)


def test_a_key_that_no_client_can_use_and_a_vanished_file_are_faults(tmp_path: Path) -> None:
    self_signed(tmp_path, ec.generate_private_key(ec.SECP256K1()))
    served = Certificate(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    assert "no shared cipher" in (served.fault() or "").lower()
    (tmp_path / "cert.pem").unlink()
    assert "No such file" in (served.fault() or "")


def test_a_certificate_and_its_key_are_set_together() -> None:
    with pytest.raises(ValueError, match="only one of tls_cert and tls_key is set"):
        HttpConfig(tls_cert="cert.pem")
    with pytest.raises(ValueError, match="only one of tls_cert and tls_key is set"):
        HttpConfig(tls_key="key.pem")
