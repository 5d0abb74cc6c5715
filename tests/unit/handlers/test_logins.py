"""The cap on failed logins, over all nodes at a BMC: which nodes may log in, and how long the other nodes wait."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from farrier.handlers.node.bmc.logins import OTHERS_TAKE, counted, is_shared, target_of, waits_for_others
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Record, Wait
from farrier.model.machine.bmc import LOGIN_WINDOW, BmcTarget
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.snapshot import Bmc, OtherLogin
from farrier.model.node.writes import Write
from tests.support.nodes import NOW, answers, decide, intent, node, onboarding
from tests.support.power import manageable
from tests.unit.model.test_explanation import why

MINUTE = timedelta(minutes=1)


def ago(minutes: int, *, under_way: bool = False) -> OtherLogin:
    return OtherLogin(at=NOW - minutes * MINUTE, open=under_way)


def waits(bmc: Bmc) -> Wait[Write]:
    """The wait of a BMC whose login cap is reached."""
    wait = counted(bmc, NOW)
    assert isinstance(wait, Wait)
    return wait


@pytest.mark.parametrize(
    ("own", "others", "may"),
    [
        pytest.param(0, (ago(1), ago(2)), True, id="two by others"),
        pytest.param(1, (ago(1), ago(2)), False, id="one more of its own"),
        pytest.param(0, (ago(1), ago(2), ago(3)), False, id="three by others"),
        pytest.param(0, (ago(1), ago(2), ago(5)), True, id="one of them old"),
        pytest.param(2, (ago(0, under_way=True),), False, id="one under way"),
    ],
)
def test_logins_of_other_nodes_at_the_bmc_count(own: int, others: tuple[OtherLogin, ...], may: bool) -> None:
    bmc = Bmc(tries=(NOW - MINUTE,) * own, others=others)
    assert isinstance(counted(bmc, NOW), Bmc) is may


def test_the_next_login_waits_until_the_oldest_counted_login_of_any_node_expires() -> None:
    assert waits(Bmc(tries=(NOW - 3 * MINUTE,), others=(ago(1), ago(4)))).requeue_after == MINUTE
    found = waits(Bmc(tries=(NOW - 4 * MINUTE,), others=(ago(1), ago(2), ago(3))))
    assert found.requeue_after == LOGIN_WINDOW - 3 * MINUTE


def test_the_node_runs_again_soon_if_logins_in_progress_alone_reach_the_cap() -> None:
    bmc = Bmc(tries=(NOW,), others=(ago(0), ago(0, under_way=True)))
    assert waits_for_others(waits(bmc)) and waits(bmc).requeue_after == OTHERS_TAKE
    bmc = replace(bmc, others=(*bmc.others, ago(1)))
    assert not waits_for_others(waits(bmc)) and waits(bmc).requeue_after == 4 * MINUTE


def test_a_node_that_waits_for_a_pause_in_logins_is_advised_to_correct_the_credential() -> None:
    reason = waits(Bmc(others=(ago(1), ago(2), ago(3)))).reason
    said = why(outcome=Record("wait", reason, "x.py:1"))
    assert said.advice.startswith("if the BMC's credential is wrong, correct it")


@pytest.mark.parametrize("under_way", [True, False])
def test_a_power_request_waits_for_logins_of_other_nodes_and_is_refused_for_failed_logins(under_way: bool) -> None:
    node = replace(
        manageable({"others": (ago(1), ago(1), ago(1, under_way=under_way))}),
        intents=(intent(Action.SET_POWER, power="on"),),
    )
    answered = [verdict for verdict, _ in answers(decide(node))]
    assert answered == ([] if under_way else ["rejected"])


@pytest.mark.parametrize(
    ("address", "dialled", "system"),
    [
        ("https://10.0.0.1/redfish/v1/Systems/1/", "https://10.0.0.1", "/redfish/v1/Systems/1"),
        ("https://10.0.0.1/", "https://10.0.0.1", None),
        ("https://10.0.0.1:8443", "https://10.0.0.1:8443", None),
        ("bmc-1.example:8443", "bmc-1.example:8443", None),
        ("fd00::1", "fd00::1", None),
        ("https://[::1", "https://[::1", None),
        ("https://[zz]", "https://[zz]", None),
        ("https://a\u2100b.example", "https://a\u2100b.example", None),
    ],
)
@pytest.mark.parametrize("learnt", [None, "/redfish/v1/Systems/2"])
def test_the_path_of_an_address_is_the_path_of_the_system_even_if_the_address_is_malformed(
    address: str, dialled: str, system: str | None, learnt: str | None
) -> None:
    node = replace(manageable(), bmc_address=address)
    target = target_of(replace(node, bmc=replace(node.bmc, system_path=learnt)))
    assert target == BmcTarget(address=dialled, credential="env:BMC", system_path=system or learnt)
    assert is_shared(node) == (system is not None)


@pytest.mark.parametrize("mode", list(OnboardingMode))
def test_only_an_adoption_restricts_requests_to_the_bmc_to_reads(mode: OnboardingMode) -> None:
    known = node(bmc_address="10.0.0.1", bmc_credential="env:BMC")
    assert not target_of(known).only_reads
    asked = target_of(replace(known, workflow=onboarding(mode=mode)))
    assert asked.only_reads is (mode is OnboardingMode.ADOPT)
