"""`onboard` in mode `deploy`: accepted if it is possible, and otherwise refused before anything begins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from farrier.config import NodeConfig
from farrier.config.sites import Site
from farrier.handlers.node.handler import NodeHandler
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Transition, Update
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Node, Onboarding
from tests.support.nodes import LONG_AGO, NOW, agent, answers, intent, moved, node, onboarding
from tests.support.stages import SITE

SITES = {"north": SITE, "south": Site(name="south")}
HANDLER = NodeHandler(NodeConfig(), sites=SITES)
NO_MODE: dict[str, Any] = {"mode": None, "stage": None, "mode_given_at": None}


def asked(status: N = N.ENROLLING, **fields: Any) -> Node:
    """A node with a BMC and a site with MAAS, and a pending intent with these parameters."""
    given: dict[str, Any] = {
        "site": "north",
        "management": M.MANAGEABLE,
        "bmc_address": "https://10.0.0.1",
        "bmc_credential": "env:BMC",
        "intents": (intent(Action.ONBOARD, mode="deploy"),),
    }
    return node(status, **given | fields)


def seen(state: MaasStatus, *, at: Any = NOW) -> MaasObservation:
    return MaasObservation(system_id="abc123", state=state, since=LONG_AGO, read_at=at, fresh_at=at)


def accepted(asking: Node) -> Onboarding:
    decision = HANDLER.handle(asking, NOW)
    assert [verdict for verdict, _ in answers(decision)] == ["accepted"], answers(decision)
    workflow = moved(decision).workflow
    assert isinstance(workflow, Onboarding) and workflow.mode is OnboardingMode.DEPLOY
    return workflow


def refused(asking: Node) -> str:
    """The reason of the refusal; asserts that nothing has begun."""
    decision = HANDLER.handle(asking, NOW)
    ((verdict, reason),) = answers(decision)
    after = decision.to if isinstance(decision, Transition | Update) else asking
    assert verdict == "rejected" and (after.status, after.workflow) == (asking.status, asking.workflow)
    return reason


@pytest.mark.parametrize("management", [M.MANAGEABLE, M.ENROLL, M.ADOPT_FAILED])
def test_a_node_with_a_bmc_in_a_site_with_maas_is_deployed(management: M) -> None:
    assert accepted(asked(management=management)).mode_given_at == NOW


def test_an_onboarding_without_a_mode_gets_the_mode_and_begins() -> None:
    pending = onboarding(W.PENDING, **NO_MODE)
    workflow = accepted(asked(workflow=pending))
    assert (workflow.id, workflow.status) == (pending.id, W.RUNNING)


def test_a_node_in_bootstrap_issued_becomes_enrolling() -> None:
    assert moved(HANDLER.handle(asked(N.BOOTSTRAP_ISSUED), NOW)).status is N.ENROLLING


@pytest.mark.parametrize("site", [None, "south", "nowhere"])
def test_a_site_without_a_region_is_refused_with_the_setting_to_configure(site: str | None) -> None:
    reason = refused(asked(site=site))
    assert f"site {site or '(none)'} has no MAAS" in reason and "sites.directory" in reason


@pytest.mark.parametrize("management", [M.UNMANAGED, M.ERROR])
def test_a_node_without_a_bmc_can_be_onboarded_by_hand_only(management: M) -> None:
    reason = refused(asked(management=management, bmc_address=None, bmc_credential=None))
    assert "needs a BMC" in reason and "mode: manual" in reason


@pytest.mark.parametrize("missing", ["bmc_address", "bmc_credential"])
def test_an_incomplete_bmc_is_refused_with_the_missing_detail(missing: str) -> None:
    half: dict[str, Any] = {missing: None}
    reason = refused(asked(management=M.ENROLL, **half))
    assert missing.removeprefix("bmc_") in reason and "set_bmc" in reason


def test_a_quarantined_node_that_was_in_service_is_refused() -> None:
    assert "was in service" in refused(asked(N.QUARANTINED))


# --- retired


def test_a_retired_node_whose_machine_was_released_is_installed_again() -> None:
    accepted(asked(N.RETIRED, maas_id="abc123", maas=seen(MaasStatus.READY)))


def test_a_retired_node_whose_machine_is_still_deployed_is_refused() -> None:
    for mode in ("deploy", "manual"):
        asking = (intent(Action.ONBOARD, mode=mode),)
        fields: dict[str, Any] = {"maas_id": "abc123", "maas": seen(MaasStatus.DEPLOYED), "agent": agent()}
        reason = refused(asked(N.RETIRED, intents=asking, **fields))
        assert "abc123 is still deployed" in reason and "reactivate" in reason
        assert ("reimage" in reason) is (mode == "deploy"), "a harmless intent is not answered by one that erases"


def test_a_stale_observation_refuses_nothing_because_the_stages_read_the_machine() -> None:
    long_ago = NOW - timedelta(hours=1)
    accepted(asked(N.RETIRED, maas_id="abc123", maas=seen(MaasStatus.DEPLOYED, at=long_ago)))
