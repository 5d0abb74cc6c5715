"""Causes of failed deployments: by the events of simulated deployments, of a recorded one, and of made-up ones."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farrier.handlers.node.onboarding.deploy_failure import MEANING, DeployCause, DeployFailure, classify, post_install
from farrier.model.maas.changes import Deploy
from farrier.model.maas.reading import Event, Machine, StatusNumber
from farrier.model.maas.scripts import ScriptSet
from farrier.model.node.stages import OnboardingStage
from farrier.sim.maas import DeployFate, Nature
from tests.support.deployments import on_ready, read, record
from tests.support.stages import Stand

RECORDED = Path("tests/data/maas/events-query.json")
STEP = timedelta(minutes=1)
OURS = "deploy 1"
TIMED_OUT = "time-out during deployment"


@pytest.fixture
async def at(stand: Stand) -> Stand:
    await on_ready(stand, OnboardingStage.DEPLOY_VIA_MAAS)
    return stand


async def judged(at: Stand, fate: DeployFate, after: timedelta) -> DeployFailure:
    at.region.default_nature = Nature(deploy=fate)
    await at.world.client.do(await read(at), Deploy(user_data="", comment=OURS))
    at.region.advance(after)
    assert at.node.maas_id is not None
    machine = await read(at)
    events = await at.world.client.events(system_id=at.node.maas_id)
    scripts = await at.world.client.results(at.node.maas_id, "installation")
    return classify(machine, events, scripts, comment=OURS)


@pytest.mark.parametrize(
    ("fate", "cause", "evidence"),
    [
        (DeployFate.NEVER_NETBOOTS, DeployCause.NO_NETBOOT, TIMED_OUT),
        (DeployFate.NO_DATASOURCE, DeployCause.DATASOURCE, "DataSourceMAAS"),
        (DeployFate.STORAGE_FAILS, DeployCause.STORAGE, "configuring storage"),
        (DeployFate.IMAGE_FAILS, DeployCause.INSTALL, "writing install sources to disk"),
        (DeployFate.NEVER_REPORTS, DeployCause.NEVER_REPORTED, TIMED_OUT),
        (DeployFate.CLOUD_INIT_FAILS, DeployCause.POST_INSTALL, "modules for final"),
    ],
)
async def test_each_cause_is_recognised_by_its_events(
    at: Stand, fate: DeployFate, cause: DeployCause, evidence: str
) -> None:
    failure = await judged(at, fate, timedelta(hours=2))
    assert failure.cause is cause and evidence in failure.evidence


@pytest.mark.parametrize(
    ("minutes", "cause"),
    [
        (1, DeployCause.NO_NETBOOT),
        (2, DeployCause.DATASOURCE),
        (4, DeployCause.INSTALL),
        (5, DeployCause.STORAGE),
        (7, DeployCause.INSTALL),
        (10, DeployCause.NEVER_REPORTED),
    ],
)
async def test_the_cause_of_a_stuck_deployment_is_the_step_that_it_reached(
    at: Stand, minutes: int, cause: DeployCause
) -> None:
    failure = await judged(at, DeployFate.SUCCEEDS, minutes * STEP)
    assert failure.cause is cause


async def test_events_of_an_earlier_deployment_are_ignored(at: Stand) -> None:
    await judged(at, DeployFate.STORAGE_FAILS, timedelta(hours=2))
    machine = record(at)
    machine.status, machine.owner = type(machine.status).READY, None
    failure = await judged(at, DeployFate.NEVER_NETBOOTS, timedelta(hours=2))
    assert failure.cause is DeployCause.NO_NETBOOT


def test_the_recorded_failure_is_classified_as_install() -> None:
    events = tuple(msgspec.convert(one, Event) for one in msgspec.json.decode(RECORDED.read_bytes())["events"])
    assert classify(failed(), events).cause is DeployCause.INSTALL
    assert "writing install sources to disk" in classify(failed(), events).evidence


# --- made-up events


def failed(status: StatusNumber = StatusNumber.FAILED_DEPLOYMENT, error: str = TIMED_OUT) -> Machine:
    return Machine(system_id="abc123", status=status.value, hostname="gpu-1", error_description=error)


def events(*said: tuple[str, str]) -> tuple[Event, ...]:
    """Return the events since farrier's request, oldest first."""
    listed = (("User starting deployment", f"(admin) - {OURS}"), *said)
    return tuple(
        Event(id=number, node="abc123", type=kind, description=text)
        for number, (kind, text) in enumerate(listed, start=10)
    )


NO_POWER = ("Failed to power on node", "no route to the BMC")
BOOTED = ("Performing PXE boot", "")
BEGUN = ("Node installation", "'curtin' curtin command install")
UMBRELLA = ("Node installation failure", "'curtin' curtin command install")
AT_DISKS = ("Node installation", "'curtin' configuring storage")


@pytest.mark.parametrize(
    ("said", "fields", "cause"),
    [
        ([NO_POWER], {}, DeployCause.POWER),
        ([("Failed to power cycle node", "x")], {}, DeployCause.POWER),
        ([("Failed to query node's BMC", "reverting to ALLOCATED")], {}, DeployCause.POWER),
        ([BOOTED, NO_POWER], {}, DeployCause.POWER),
        ([NO_POWER, BOOTED], {}, DeployCause.DATASOURCE),  # the machine booted after all
        ([], {}, DeployCause.NO_NETBOOT),
        ([], {"error": ""}, DeployCause.NO_NETBOOT),
        ([], {"error": "driver fell over"}, DeployCause.UNKNOWN),
        ([("PXE Request", "")], {}, DeployCause.DATASOURCE),
        ([("HTTP Request", "")], {}, DeployCause.DATASOURCE),
        ([BOOTED, ("Node installation failure", "'cloudinit' searching")], {}, DeployCause.DATASOURCE),
        ([BOOTED, BEGUN, AT_DISKS, UMBRELLA], {}, DeployCause.STORAGE),
        ([BOOTED, BEGUN, UMBRELLA], {}, DeployCause.INSTALL),
        ([BOOTED, BEGUN, ("Node installation failure", "'curtin' partitioning"), UMBRELLA], {}, DeployCause.STORAGE),
        ([BOOTED, BEGUN, ("Rebooting", "")], {}, DeployCause.NEVER_REPORTED),
        ([("Node post-installation failure", "x")], {"status": StatusNumber.DEPLOYED}, DeployCause.POST_INSTALL),
        ([("Marking node failed", "a script said so")], {"error": ""}, DeployCause.UNKNOWN),
    ],
)
def test_each_rule_of_the_classification_yields_its_cause(
    said: list[tuple[str, str]], fields: dict[str, Any], cause: DeployCause
) -> None:
    assert classify(failed(**fields), events(*said), comment=OURS).cause is cause


def test_the_installation_log_decides_if_events_are_missing() -> None:
    passed = ScriptSet(id=2, status_name="Passed")
    before = ScriptSet(id=1, status_name="Failed")
    seen = events(BOOTED, BEGUN)
    assert classify(failed(), seen, (passed, before), comment=OURS).cause is DeployCause.NEVER_REPORTED
    assert classify(failed(), seen, (before,), comment=OURS).cause is DeployCause.INSTALL


def test_a_failure_without_any_trace_has_the_cause_unknown() -> None:
    failure = classify(failed(error=""), ())
    assert failure.cause is DeployCause.UNKNOWN and failure.evidence


def test_an_old_error_of_a_machine_that_is_deploying_is_no_evidence() -> None:
    deploying = failed(StatusNumber.DEPLOYING, error="of last year")
    assert "last year" not in classify(deploying, (), comment=OURS).evidence


def test_a_long_message_of_a_power_driver_is_cut() -> None:
    text = classify(failed(), events(("Failed to power on node", "x" * 5000)), comment=OURS)
    assert len(str(text)) < 400


def test_every_cause_has_a_description() -> None:
    assert set(MEANING) == set(DeployCause)


def test_a_failure_of_the_first_boot_is_found_from_the_events_alone() -> None:
    seen = events(("Node post-installation failure", "'cloudinit' running modules for final"))
    assert post_install(seen, comment=OURS) == "Node post-installation failure: 'cloudinit' running modules for final"
    assert post_install(events(BOOTED), comment=OURS) is None
