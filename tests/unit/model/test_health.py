"""Healthy, silent, or neither: the facts that decide, one at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from farrier.model import health
from farrier.model.bmc import PowerState
from farrier.model.health import Alert, Health, Healthy, SshSeed, Unhealthy, Vitals

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OFFLINE_AFTER = timedelta(seconds=180)
FRESH = NOW - timedelta(seconds=1)
OLD = NOW - timedelta(hours=1)


def agent(heartbeat: datetime | None = FRESH, report: Health | None = None) -> Vitals:
    return Vitals(agentless=False, has_bmc=False, has_maas=False, last_heartbeat_at=heartbeat, report=report)


def agentless(power: PowerState | None = PowerState.ON, deployed: bool | None = None) -> Vitals:
    return Vitals(
        agentless=True,
        has_bmc=True,
        has_maas=deployed is not None,
        power=power,
        deployed=deployed,
    )


def judge(vitals: Vitals) -> Healthy | Unhealthy:
    return health.healthy(vitals, NOW, offline_after=OFFLINE_AFTER)


def silence(vitals: Vitals) -> str | None:
    return health.silent(vitals, NOW, offline_after=OFFLINE_AFTER)


WARNING = Health(ok=False, alerts=(Alert("fan", "slow", False),))
BLOCKING = Health(ok=False, alerts=(Alert("fan", "slow", False), Alert("xid-79", "fell off the bus", True)))


@pytest.mark.parametrize(
    "vitals",
    [
        pytest.param(agent(), id="fresh heartbeat, no report yet"),
        pytest.param(agent(NOW - OFFLINE_AFTER), id="heartbeat exactly at the limit"),
        pytest.param(agent(report=WARNING), id="an alert that does not block"),
        pytest.param(agentless(), id="fresh power on, no MAAS"),
        pytest.param(agentless(deployed=True), id="fresh power on and deployed"),
    ],
)
def test_healthy(vitals: Vitals) -> None:
    assert judge(vitals) == Healthy()


NO_PROOF = Vitals(agentless=True, has_bmc=False, has_maas=True, deployed=True)
NOT_FRESH = msgspec.structs.replace(agentless(deployed=True), deployed=None)


@pytest.mark.parametrize(
    ("vitals", "why"),
    [
        pytest.param(agent(None), "no heartbeat", id="never a heartbeat"),
        pytest.param(agent(OLD), "no heartbeat", id="old heartbeat"),
        pytest.param(agent(report=BLOCKING), "alerts block scheduling: xid-79", id="blocking alert"),
        pytest.param(NO_PROOF, "neither an agent nor a BMC", id="nothing to prove it by"),
        pytest.param(agentless(None), "no fresh read", id="power never read, or long ago"),
        pytest.param(agentless(PowerState.OFF), "power is off", id="power off"),
        pytest.param(agentless(PowerState.UNKNOWN), "power is unknown", id="power unknown"),
        pytest.param(agentless(deployed=False), "MAAS", id="not deployed"),
        pytest.param(NOT_FRESH, "MAAS", id="no fresh word from MAAS"),
    ],
)
def test_not_proven_healthy(vitals: Vitals, why: str) -> None:
    verdict = judge(vitals)
    assert isinstance(verdict, Unhealthy)
    assert why in verdict.reason


@pytest.mark.parametrize(
    ("vitals", "why"),
    [
        pytest.param(agent(OLD), "no heartbeat", id="old heartbeat"),
        pytest.param(agent(None), "no heartbeat", id="never a heartbeat"),
        pytest.param(agentless(PowerState.OFF), "power is off", id="fresh power off"),
    ],
)
def test_silent(vitals: Vitals, why: str) -> None:
    reason = silence(vitals)
    assert reason is not None
    assert why in reason


@pytest.mark.parametrize(
    "vitals",
    [
        pytest.param(agent(NOW - OFFLINE_AFTER), id="heartbeat exactly at the limit"),
        pytest.param(agent(report=BLOCKING), id="unwell is not silent"),
        pytest.param(agentless(None), id="what its BMC said long ago proves nothing"),
        pytest.param(agentless(PowerState.UNKNOWN), id="unknown power proves nothing"),
        pytest.param(agentless(deployed=False), id="drift is not silence"),
    ],
)
def test_not_silent(vitals: Vitals) -> None:
    assert silence(vitals) is None


def test_a_heartbeat_is_old_one_microsecond_after_the_limit() -> None:
    late = agent(NOW - OFFLINE_AFTER - timedelta(microseconds=1))
    assert isinstance(judge(late), Unhealthy)
    assert silence(late) is not None


def test_a_newer_agent_may_report_fields_that_are_unknown_here() -> None:
    raw = b'{"ok":false,"gpus":8,"ssh_seed":"failed","alerts":[{"id":"a","blocks_scheduling":true,"since":1}]}'
    report = msgspec.json.decode(raw, type=Health)
    assert report == Health(ok=False, alerts=(Alert("a", "", True),), ssh_seed=SshSeed.FAILED)
    assert report.blocking == report.alerts
