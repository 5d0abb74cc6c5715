"""The TLS policy is the same on every Python, and each exception for a BMC is a setting that is shown."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from farrier import tls
from farrier.client import wire
from farrier.config import BmcHostConfig, BmcTrustConfig
from farrier.errors import ConfigError
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcTarget, PowerState
from farrier.services.http import trust
from farrier.sim.certificates import Authority
from tests.support.bmc import CREDENTIAL, SYSTEM, FakeBmc, connect, fake_bmc

DAY = timedelta(days=1)


class Chain:
    """A root, an intermediate and a leaf in the form of an old site: no key usage, and no key identifiers. With `bits`
    of RSA. `sent` has the leaf and the intermediate."""

    def __init__(self, directory: Path, *, bits: int = 2048) -> None:
        self.root, self.intermediate, self.leaf = (directory / name for name in ("root.pem", "mid.pem", "leaf.pem"))
        keys = [rsa.generate_private_key(65537, bits) for _ in range(3)]
        names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("root", "mid", "leaf")]
        for at, file in enumerate((self.root, self.intermediate, self.leaf)):
            issuer = max(0, at - 1)
            now = datetime.now(UTC)
            builder = (
                x509.CertificateBuilder(names[issuer], names[at], keys[at].public_key(), x509.random_serial_number())
                .not_valid_before(now - DAY)
                .not_valid_after(now + DAY)
                .add_extension(x509.BasicConstraints(ca=at < 2, path_length=None), critical=False)
            )
            if at == 2:
                name = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
                builder = builder.add_extension(name, critical=False)
            made = builder.sign(keys[issuer], hashes.SHA256())
            file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        self.sent = directory / "chain.pem"
        self.sent.write_bytes(self.leaf.read_bytes() + self.intermediate.read_bytes())
        self.key = directory / "leaf.key"
        self.key.write_bytes(
            keys[2].private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )

    def server(self, *, ciphers: str | None = None) -> ssl.SSLContext:
        """The TLS settings of a BMC with this leaf, which also sends the intermediate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_ciphers(ciphers or "DEFAULT:@SECLEVEL=0")
        context.load_cert_chain(self.sent, self.key)
        if ciphers is not None:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        return context


async def power(bmc: FakeBmc, trusted: BmcTrustConfig) -> PowerState:
    async with connect(bmc.ca_file, trust=trusted) as client:
        target = BmcTarget(address=bmc.url, credential=CREDENTIAL, system_path=SYSTEM)
        return (await client.read(target)).power


def test_the_policy_is_stated_and_not_that_of_the_runtime() -> None:
    """Python 3.13 refuses the certificate of a CA without key usage; the policy does not, on any Python."""
    for context in (
        tls.verifying(),
        wire.options("https://farrier.example", None, True)["verify"],
        *(trust.policy_of(one).context for one in (BmcTrustConfig(), BmcTrustConfig(insecure=True))),
        trust.policy_of(BmcTrustConfig(fingerprint="ab" * 32)).context,
    ):
        assert context.verify_flags == tls.FLAGS
        assert not context.verify_flags & ssl.VerifyFlags.VERIFY_X509_STRICT
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        suites = {suite["name"] for suite in context.get_ciphers()}
        assert "ECDHE-RSA-AES256-GCM-SHA384" in suites
        assert not suites & {"AES256-SHA", "AES128-SHA", "ECDHE-RSA-AES256-SHA", "NULL-SHA"}


@pytest.mark.parametrize("ca", ["root", "intermediate"])
async def test_the_ca_of_an_old_site_is_trusted(tmp_path: Path, authority: Authority, ca: str) -> None:
    """It has no key usage, its leaves have no key identifier of the authority, and a site may trust only a part."""
    chain = Chain(tmp_path)
    async with fake_bmc(tmp_path, authority, tls=chain.server()) as bmc:
        assert await power(bmc, BmcTrustConfig(ca_file=str(getattr(chain, ca)))) is PowerState.ON


@pytest.mark.parametrize("ciphers", ["AES256-SHA", "AES128-SHA", "AES256-SHA256", "AES256-GCM-SHA384"])
async def test_a_bmc_with_only_old_ciphers_is_reached_by_a_setting_of_its_host(
    tmp_path: Path, authority: Authority, ciphers: str
) -> None:
    chain = Chain(tmp_path)
    usual = BmcTrustConfig(ca_file=str(chain.root))
    async with fake_bmc(tmp_path, authority, tls=chain.server(ciphers=ciphers)) as bmc:
        with pytest.raises(BmcError):
            await power(bmc, usual)
        assert bmc.requests == []
        with capture_logs() as logs:
            async with connect(
                bmc.ca_file,
                trust=usual,
                hosts={"127.0.0.1": BmcHostConfig(ca_file=str(chain.root), ciphers=ciphers)},
            ) as client:
                target = BmcTarget(address=bmc.url, credential=CREDENTIAL, system_path=SYSTEM)
                assert (await client.read(target)).power is PowerState.ON
        assert [(log["event"], log["hosts"]) for log in logs] == [("bmc.tls_other_ciphers", ["127.0.0.1"])]


async def test_the_error_of_a_bmc_with_only_old_ciphers_names_the_setting(tmp_path: Path) -> None:
    """A server of OpenSSL sends this alert; the server of the other tests hangs up."""
    chain = Chain(tmp_path)

    def refuse(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer, suppress(OSError):
            chain.server(ciphers="AES256-SHA").wrap_socket(peer, server_side=True)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=(listener,))
        thread.start()
        address = f"https://127.0.0.1:{listener.getsockname()[1]}"
        async with connect(chain.root) as client:
            with pytest.raises(BmcError, match=r"set ciphers for it in bmc\.hosts") as raised:
                await client.read(BmcTarget(address=address, credential=CREDENTIAL, system_path=SYSTEM))
        thread.join()
    assert raised.value.failure is BmcFailure.TLS


@pytest.mark.parametrize("pinned", [True, False])
async def test_old_ciphers_and_short_keys_can_be_combined_with_the_other_exceptions(
    tmp_path: Path, authority: Authority, *, pinned: bool
) -> None:
    chain = Chain(tmp_path, bits=1024)
    digest = x509.load_pem_x509_certificate(chain.leaf.read_bytes()).fingerprint(hashes.SHA256()).hex()
    weak = "AES256-SHA:@SECLEVEL=0"
    policy = BmcTrustConfig(fingerprint=digest if pinned else "", insecure=not pinned, ciphers=weak)
    async with fake_bmc(tmp_path, authority, tls=chain.server(ciphers=weak)) as bmc:
        assert await power(bmc, policy) is PowerState.ON


async def test_another_certificate_than_the_pinned_one_gets_no_secret_with_other_ciphers_either(
    tmp_path: Path, authority: Authority
) -> None:
    chain = Chain(tmp_path)
    policy = BmcTrustConfig(fingerprint="0" * 64, ciphers="AES256-SHA")
    async with fake_bmc(tmp_path, authority, tls=chain.server(ciphers="AES256-SHA")) as bmc:
        with pytest.raises(BmcError, match="not the pinned certificate"):
            await power(bmc, policy)
        assert bmc.requests == []


@pytest.mark.parametrize("ciphers", ["NO-SUCH-CIPHER", "eNULL", "aNULL"])
def test_ciphers_that_openssl_does_not_know_or_that_protect_nothing_are_refused(ciphers: str) -> None:
    with pytest.raises(ConfigError, match="openssl ciphers"):
        trust.policy_of(BmcTrustConfig(ciphers=ciphers))
