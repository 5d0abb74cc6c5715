"""A node is healthy, silent, or neither: the facts that decide, one at a time."""

from __future__ import annotations

import msgspec
import pytest

from farrier.model.machine import health
from farrier.model.machine.bmc import PowerState
from farrier.model.machine.health import Alert, Health, SshSeed, Vitals
from farrier.model.node.conditions import Condition, stated

BLOCKING = (stated("agent", "xid-79"),)


def agent(*, heard: bool = True, blocking: tuple[Condition, ...] = ()) -> Vitals:
    return Vitals(agentless=False, heard=heard, blocking=blocking)


def agentless(power: PowerState | None = PowerState.ON, deployed: bool | None = None) -> Vitals:
    return Vitals(
        agentless=True,
        has_bmc=True,
        has_maas=deployed is not None,
        power=power,
        deployed=deployed,
    )


@pytest.mark.parametrize(
    "vitals",
    [
        pytest.param(agent(), id="fresh heartbeat, no alert that blocks"),
        pytest.param(agentless(), id="fresh power on, no MAAS"),
        pytest.param(agentless(deployed=True), id="fresh power on and deployed"),
    ],
)
def test_healthy(vitals: Vitals) -> None:
    assert health.unproven(vitals) is None


NO_PROOF = Vitals(agentless=True, has_bmc=False, has_maas=True, deployed=True)
NOT_FRESH = msgspec.structs.replace(agentless(deployed=True), deployed=None)


@pytest.mark.parametrize(
    ("vitals", "why"),
    [
        pytest.param(agent(heard=False), "no heartbeat", id="no fresh heartbeat"),
        pytest.param(agent(blocking=BLOCKING), "alerts block scheduling: xid-79", id="blocking alert"),
        pytest.param(NO_PROOF, "neither an agent nor a BMC", id="neither agent nor BMC"),
        pytest.param(agentless(None), "no fresh read", id="power never read, or long ago"),
        pytest.param(agentless(PowerState.OFF), "power is off", id="power off"),
        pytest.param(agentless(PowerState.UNKNOWN), "power is unknown", id="power unknown"),
        pytest.param(agentless(deployed=False), "MAAS", id="not deployed"),
        pytest.param(NOT_FRESH, "MAAS", id="no fresh read of MAAS"),
    ],
)
def test_not_proven_healthy(vitals: Vitals, why: str) -> None:
    reason = health.unproven(vitals)
    assert reason is not None
    assert why in reason


def test_silent() -> None:
    reason = health.silent(agent(heard=False))
    assert reason is not None
    assert "no heartbeat" in reason


@pytest.mark.parametrize(
    "vitals",
    [
        pytest.param(agentless(PowerState.OFF), id="no agent"),
        pytest.param(msgspec.structs.replace(agent(), is_off=True), id="agent"),
    ],
)
def test_off(vitals: Vitals) -> None:
    reason = health.off(vitals)
    assert reason is not None
    assert "reports power off" in reason
    assert health.unproven(vitals) is not None


@pytest.mark.parametrize(
    "vitals",
    [
        pytest.param(agent(blocking=BLOCKING), id="unwell is not silent"),
        pytest.param(agentless(None), id="a stale read proves nothing"),
        pytest.param(agentless(PowerState.UNKNOWN), id="unknown power proves nothing"),
        pytest.param(agentless(deployed=False), id="drift is not silence"),
    ],
)
def test_neither_silent_nor_off(vitals: Vitals) -> None:
    assert health.silent(vitals) is None
    assert health.off(vitals) is None


def test_a_newer_agent_may_report_fields_that_are_unknown_here() -> None:
    raw = b'{"ok":false,"gpus":8,"ssh_seed":"failed","alerts":[{"id":"a","blocks_scheduling":true,"since":1}]}'
    report = msgspec.json.decode(raw, type=Health)
    assert report == Health(ok=False, alerts=(Alert("a", "", True),), ssh_seed=SshSeed.FAILED)
