"""The BmcClient against two Redfish servers: sushy-emulator of the sushy-tools project, and farrier's fake.

Behaviour that both servers have is tested on both, which keeps the fake realistic; behaviour that only the fake has is
in `test_bmc_client_faults`.
"""

from __future__ import annotations

import hashlib
import os
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from farrier.config import BmcHostConfig, BmcTrustConfig
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcTarget, PowerState
from farrier.services.bmc.client import RedfishBmc
from farrier.sim.bmc import SimulatedBmc, fake_systems, simulated_bmc
from farrier.sim.certificates import Authority, ServerFiles
from tests.support import bmc as support
from tests.support.bmc import CREDENTIAL, connect, fake_bmc
from tests.support.observed import Observed
from tests.support.sockets import free_port

SOON = timedelta(milliseconds=500)
HOUR = timedelta(hours=1)


class Double(msgspec.Struct, frozen=True):
    """A running Redfish server with one host behind it: the emulator or farrier's fake."""

    url: str
    ca_file: Path
    credential: str
    system_path: str
    fake: support.FakeBmc | None = None
    emulator: SimulatedBmc | None = None

    def target(self, **changes: str | None) -> BmcTarget:
        usual = BmcTarget(address=self.url, credential=CREDENTIAL, system_path=self.system_path)
        return msgspec.structs.replace(usual, **changes)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Within the block, the server accepts connections and does not respond."""
        if self.fake is not None:
            self.fake.answer(self.system_path, support.Silence())
            yield
        elif self.emulator is not None:
            os.kill(self.emulator.process, signal.SIGSTOP)
            try:
                yield
            finally:
                os.kill(self.emulator.process, signal.SIGCONT)


def of_emulator(emulator: SimulatedBmc) -> Double:
    return Double(
        url=emulator.base_url,
        ca_file=emulator.ca_file,
        credential=f"{emulator.username}:{emulator.password}",
        system_path=emulator.systems[0].path,
        emulator=emulator,
    )


def of_fake(fake: support.FakeBmc) -> Double:
    return Double(
        url=fake.url,
        ca_file=fake.ca_file,
        credential=f"{support.USERNAME}:{support.PASSWORD}",
        system_path=support.SYSTEM,
        fake=fake,
    )


@pytest.fixture(scope="module")
async def emulator(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> AsyncIterator[Double]:
    async with simulated_bmc(tmp_path_factory.mktemp("sushy"), fake_systems(1), authority=authority) as running:
        yield of_emulator(running)


@pytest.fixture
async def fake(tmp_path: Path, authority: Authority) -> AsyncIterator[Double]:
    async with fake_bmc(tmp_path, authority) as running:
        yield of_fake(running)


@pytest.fixture(params=["fake", "emulator"])
def double(request: pytest.FixtureRequest) -> Double:
    chosen: Double = request.getfixturevalue(request.param)
    return chosen


async def failure(client: RedfishBmc, target: BmcTarget) -> BmcError:
    with pytest.raises(BmcError) as raised:
        await client.verify(target)
    return raised.value


async def test_a_known_system_takes_two_requests_and_gives_a_full_reading(double: Double) -> None:
    observed = Observed("bmc")
    async with connect(double.ca_file, credential=double.credential, observed=observed) as client:
        reading = await client.verify(double.target())
    assert reading.power is PowerState.ON
    assert reading.system_path == double.system_path
    assert reading.uuid == (reading.uuid or "").lower() != ""
    assert reading.manufacturer
    assert reading.macs == ()
    assert observed.requests == [("system", "ok"), ("manager", "ok")]


async def test_an_unknown_system_is_discovered_with_its_interfaces(double: Double) -> None:
    async with connect(double.ca_file, credential=double.credential) as client:
        found = await client.verify(double.target(system_path=None), macs=True)
        again = await client.verify(double.target(system_path=found.system_path))
    assert found.system_path == double.system_path
    assert found.macs
    assert again == msgspec.structs.replace(found, macs=())


async def test_a_wrong_password_is_tried_exactly_once(double: Double) -> None:
    for path in (double.system_path, None):
        observed = Observed("bmc")
        async with connect(double.ca_file, credential="admin:wr0ng", observed=observed) as client:
            error = await failure(client, double.target(system_path=path))
        assert error.failure is BmcFailure.AUTH
        assert error.credential_version is not None
        assert [result for _, result in observed.requests].count("auth") == 1
        assert observed.requests[-1][1] == "auth"
    if double.fake is not None:
        assert double.fake.logins == 2


async def test_a_missing_system_is_unsupported_and_named(double: Double) -> None:
    async with connect(double.ca_file, credential=double.credential) as client:
        error = await failure(client, double.target(system_path="/redfish/v1/Systems/none"))
    assert error.failure is BmcFailure.UNSUPPORTED
    assert "/redfish/v1/Systems/none returned HTTP 404" in error.detail


async def test_a_redirect_to_another_path_of_the_bmc_is_followed(double: Double) -> None:
    path = "/redfish/v1/Systems/sim-1"  # the emulator redirects names to UUIDs
    if double.fake is not None:
        double.fake.answer(path, support.Page(307, headers=(("Location", double.system_path),)))
    async with connect(double.ca_file, credential=double.credential) as client:
        assert (await client.verify(double.target(system_path=path))).power is PowerState.ON


async def test_a_bmc_that_never_answers_fails_as_timeout_and_recovers(double: Double) -> None:
    async with connect(double.ca_file, credential=double.credential, deadline=SOON, connect_timeout=HOUR) as client:
        with double.frozen():
            error = await failure(client, double.target())
    assert error.failure is BmcFailure.TIMEOUT
    if double.fake is not None:
        double.fake.answer(double.system_path, support.system())
    async with connect(double.ca_file, credential=double.credential) as client:
        assert (await client.verify(double.target())).power is PowerState.ON


async def test_a_certificate_of_an_unknown_ca_is_refused_before_the_credential_is_sent(
    double: Double, tmp_path: Path
) -> None:
    other = Authority("another CA", now=datetime.now(UTC)).write(tmp_path / "other.crt")
    for trust in (BmcTrustConfig(ca_file=str(other)), BmcTrustConfig()):
        async with connect(double.ca_file, credential=double.credential, trust=trust) as client:
            error = await failure(client, double.target())
        assert error.failure is BmcFailure.TLS
        assert "certificate" in error.detail
    if double.fake is not None:
        assert double.fake.requests == []


WrongCertificate = Callable[[Authority, Path], ServerFiles]


@pytest.mark.parametrize("kind", ["fake", "emulator"])
@pytest.mark.parametrize(
    ("issue", "reason"),
    [
        pytest.param(lambda ca, to: ca.issue(to, hosts=("10.1.2.3",)), "mismatch", id="wrong-host"),
        pytest.param(lambda ca, to: ca.issue(to, hosts=("127.0.0.1",), lifetime=-HOUR), "expired", id="expired"),
    ],
)
async def test_a_certificate_for_another_host_or_time_is_refused(
    kind: str, issue: WrongCertificate, reason: str, *, authority: Authority, tmp_path: Path
) -> None:
    certificate = issue(authority, tmp_path)
    if kind == "fake":
        async with fake_bmc(tmp_path, authority, certificate=certificate) as fake:
            await assert_refused(of_fake(fake), reason)
        assert fake.requests == []
        return
    async with simulated_bmc(tmp_path, fake_systems(1), authority=authority, certificate=certificate) as emulator:
        await assert_refused(of_emulator(emulator), reason)


async def assert_refused(double: Double, reason: str) -> None:
    async with connect(double.ca_file, credential=double.credential) as client:
        error = await failure(client, double.target())
    assert error.failure is BmcFailure.TLS
    assert reason in error.detail


async def test_a_closed_port_is_unreachable(double: Double) -> None:
    with free_port() as port:
        async with connect(double.ca_file) as client:
            error = await failure(client, double.target(address=f"127.0.0.1:{port}"))
    assert error.failure is BmcFailure.UNREACHABLE
    assert "connection refused" in error.detail


async def test_only_the_pinned_certificate_is_trusted_regardless_of_its_content(
    authority: Authority, tmp_path: Path
) -> None:
    certificate = authority.issue(tmp_path, hosts=("bmc.elsewhere",), lifetime=-HOUR)
    sha256 = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.certificate.read_text())).hexdigest()
    async with fake_bmc(tmp_path, authority, certificate=certificate) as fake:
        double = of_fake(fake)
        for pin in (sha256, ":".join(sha256[i : i + 2] for i in range(0, 64, 2)).upper()):
            async with connect(double.ca_file, trust=BmcTrustConfig(fingerprint=pin)) as client:
                assert (await client.verify(double.target())).power is PowerState.ON
        seen = len(fake.requests)
        async with connect(double.ca_file, trust=BmcTrustConfig(fingerprint="0" * 64)) as client:
            error = await failure(client, double.target())
        assert error.failure is BmcFailure.TLS
        assert sha256 in error.detail
        assert len(fake.requests) == seen


async def on_loopback(_host: str) -> tuple[str, ...]:
    return ("127.0.0.1",)


async def test_one_host_may_have_a_separate_policy_and_an_insecure_policy_is_logged(
    authority: Authority, tmp_path: Path
) -> None:
    certificate = authority.issue(tmp_path, hosts=("bmc.elsewhere",))
    async with fake_bmc(tmp_path, authority, certificate=certificate) as fake:
        double = of_fake(fake)
        with capture_logs() as logs:
            hosts = {"BMC.example": BmcHostConfig(insecure=True)}
            async with connect(double.ca_file, hosts=hosts, lookup=on_loopback) as client:
                target = msgspec.structs.replace(double.target(), address=fake.url.replace("127.0.0.1", "bmc.Example"))
                assert (await client.verify(target)).power is PowerState.ON
    assert logs == [{"event": "bmc.tls_not_verified", "log_level": "warning", "hosts": ["BMC.example"]}]


async def test_calls_for_one_bmc_run_one_after_the_other(double: Double) -> None:
    observed = Observed("bmc")
    async with (
        connect(double.ca_file, credential=double.credential, observed=observed) as client,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(3):
            tasks.start_soon(client.verify, double.target())
    assert observed.requests == [("system", "ok"), ("manager", "ok")] * 3
