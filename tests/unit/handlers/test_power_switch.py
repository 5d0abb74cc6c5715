"""Changes of power, without a database: two commits, nothing sent twice, and the answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from farrier.handlers.node.bmc.power_switch import ENFORCE_EVERY
from farrier.handlers.node.changes import Decision, Policy
from farrier.handlers.node.rules import power
from farrier.model.intents.actions import Action
from farrier.model.intents.params import PowerRequest
from farrier.model.loop.outcome import DoNothing, Step, Wait
from farrier.model.machine.bmc import LOGIN_CAP, BmcError, BmcFailure, PowerState
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.layers import Management as M
from farrier.model.node.snapshot import Intent, Node, Pause, Switching
from tests.support.nodes import HANDLER, MINUTE, NOW, SECOND, answers, decide, decommission, intent, moved, writes
from tests.support.power import READING, World, gaps, manageable

HOUR = timedelta(hours=1)


# --- enforced power


def kept(**fields: Any) -> Node:
    return manageable({"power": PowerState.OFF, "desired_power": PowerState.ON, "power_at": NOW - SECOND} | fields)


def test_a_machine_with_another_power_than_the_target_is_switched_in_two_commits() -> None:
    noted = moved(decide(kept()))
    assert noted.bmc.switching == Switching(power=PowerRequest.ON, at=NOW)
    world = World()
    done = moved(world.act(decide(noted)))
    assert [call for call, _ in world.log] == ["read", "on sent"]
    assert (done.bmc.switching, done.bmc.power, done.bmc.desired_power) == (None, PowerState.ON, PowerState.ON)


def test_a_machine_that_will_not_stay_on_is_not_switched_in_a_loop() -> None:
    world = World()
    states = [replace(READING, power=PowerState.OFF), READING]
    world.answer = lambda: states[world.log[-1][0] == "on sent"]
    world.live(kept(), until=HOUR)
    switched = world.times("on sent")
    assert 10 <= len(switched) <= 13
    assert min(gaps(switched)) >= ENFORCE_EVERY / SECOND


def test_an_enforcement_error_is_kept_until_the_target_is_reached_or_dropped() -> None:
    world = World(BmcError(BmcFailure.UNSUPPORTED, "it has no action to switch power"))
    failed = moved(world.act(decide(moved(decide(kept())))))
    assert failed.bmc.enforce_error == "unsupported: it has no action to switch power"
    world.answer = lambda: replace(READING, power=PowerState.OFF)
    still = world.live(failed, until=MINUTE)
    assert still.bmc.enforce_error == failed.bmc.enforce_error, "only the target power ends the error"
    in_vain = world.live(failed, until=HOUR)
    assert in_vain.bmc.enforce_error == "power is off now"
    well = World()
    well.now = world.now
    assert well.live(in_vain, until=MINUTE * 10).bmc.enforce_error is None
    off = World(replace(READING, power=PowerState.OFF))
    given_up = moved(off.act(decide(begun(failed, power="off"))))
    assert (given_up.bmc.desired_power, given_up.bmc.enforce_error) == (None, None)


def test_a_verification_keeps_the_enforcement_error_unless_the_target_is_reached() -> None:
    verifying = replace(kept(enforce_error="it said no", tries=(NOW,), trying=NOW), management=M.VERIFYING)
    verifying = replace(verifying, management_entered_at=NOW)
    off = moved(World(replace(READING, power=PowerState.OFF)).act(decide(verifying)))
    assert (off.management, off.bmc.enforce_error) == (M.MANAGEABLE, "it said no")
    assert moved(World().act(decide(verifying))).bmc.enforce_error is None


def test_a_switch_that_waits_reports_its_minimum_interval() -> None:
    decision = decide(kept(enforced_at=NOW - MINUTE))
    assert isinstance(decision, Wait) and decision.reason.endswith("farrier switches it at most once in 5m"), decision


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(replace(kept(), paused=Pause("fire drill", NOW)), id="paused"),
        pytest.param(kept(power=PowerState.UNKNOWN), id="unknown power"),
        pytest.param(kept(power_at=NOW - HOUR, next_sync_at=NOW + HOUR), id="the read is stale"),
        pytest.param(kept(sync_failure=BmcFailure.TIMEOUT, next_sync_at=NOW + MINUTE, watched_at=NOW), id="unreadable"),
        pytest.param(kept(tries=(NOW,) * LOGIN_CAP), id="login cap"),
        pytest.param(
            replace(kept(), workflow=decommission(mode=DecommissionMode.REIMAGE)),
            id="a workflow that uses MAAS",
        ),
        pytest.param(kept(desired_power=None), id="observed only"),
    ],
)
def test_power_is_not_switched_if_it_is_unknown_or_not_managed_by_farrier(node: Node) -> None:
    assert isinstance(power.tend(node, NOW, Policy()), Wait | DoNothing | None)


# --- intents


def asked(node: Node, **params: Any) -> Node:
    return replace(node, intents=(intent(Action.SET_POWER, **params),))


def begun(node: Node, **params: Any) -> Node:
    """The node after the first commit for an intent, which is still pending."""
    node = asked(node, **params)
    decision = decide(node)
    assert answers(decision) == []
    return replace(moved(decision), intents=node.intents)


def test_a_switch_is_committed_before_it_is_sent_and_the_intent_waits_for_its_result() -> None:
    node = begun(manageable(), power="off")
    (request,) = node.intents
    assert node.bmc.switching == Switching(power=PowerRequest.OFF, at=NOW, intent=request.id)
    assert node.bmc.tries == (NOW,), "the login is counted before it is made"
    world = World(replace(READING, power=PowerState.OFF))
    result = world.act(decide(node))
    assert answers(result) == [("accepted", "power off done: power is off")]
    assert (moved(result).bmc.power, moved(result).bmc.switching, moved(result).bmc.tries) == (
        PowerState.OFF,
        None,
        (),
    )


@pytest.mark.parametrize("wanted", PowerRequest)
def test_a_switch_with_an_unknown_result_is_sent_again_unless_it_is_a_reset(wanted: PowerRequest) -> None:
    node = begun(manageable(), power=wanted)
    for doubtful in (moved(HANDLER.recover(node, NOW + SECOND, "switch_power")), moved(_cut(decide(node)))):
        again = moved(decide(replace(doubtful, intents=node.intents), NOW + SECOND))
        assert again.bmc.switching is not None and again.bmc.switching.unsure
        assert len(again.bmc.tries) == 2, "both logins count"
        world = World(replace(READING, power=PowerState.OFF if wanted is PowerRequest.OFF else PowerState.ON))
        result = world.act(decide(replace(again, intents=node.intents), NOW + SECOND))
        ((verdict, reason),) = answers(result)
        if wanted is PowerRequest.RESET:
            assert [call for call, _ in world.log] == ["read", "reset looked at"]
            assert verdict == "rejected" and "outcome is unknown" in reason and "power is on now" in reason
        else:
            assert [call for call, _ in world.log] == ["read", f"{wanted} sent"]
            assert verdict == "accepted"


def _cut(step: Decision) -> Any:
    assert isinstance(step, Step)
    return step.when_interrupted()


def test_a_switch_that_began_too_long_ago_has_an_unknown_result() -> None:
    node = begun(manageable(), power="reset")
    later = moved(decide(node, NOW + 11 * SECOND))
    assert later.bmc.switching is not None and later.bmc.switching.unsure


def test_a_switch_with_an_unknown_result_at_the_login_cap_is_rejected() -> None:
    node = begun(manageable(), power="reset")
    doubtful = replace(node, bmc=replace(node.bmc, tries=(NOW,) * LOGIN_CAP, trying=None))
    ((verdict, reason),) = answers(decide(doubtful, NOW + SECOND))
    assert verdict == "rejected" and "too many logins" in reason


@pytest.mark.parametrize("failure", BmcFailure)
def test_a_refusal_of_the_bmc_is_the_answer_with_its_failure_class(failure: BmcFailure) -> None:
    node = begun(manageable({"desired_power": PowerState.ON}), power="off")
    result = World(BmcError(failure, "it said no")).act(decide(node))
    assert answers(result) == [("rejected", f"set_power off: {failure}: it said no; farrier still enforces power on")]
    after = moved(result).bmc
    assert (after.switching, after.desired_power) == (None, PowerState.ON), "the power was not changed"
    assert after.tries == ((NOW,) if failure is BmcFailure.AUTH else ())


def test_a_switch_that_was_sent_without_a_response_is_reported_as_possible() -> None:
    node = begun(manageable(), power="reset")
    ((_, reason),) = answers(World(BmcError(BmcFailure.TIMEOUT, "no answer", sent=True)).act(decide(node)))
    assert "may still take effect" in reason


@pytest.mark.parametrize("power", PowerState)
def test_another_machine_behind_the_bmc_is_never_switched(power: PowerState) -> None:
    node = begun(manageable(), power="off")
    world = World(replace(READING, serial="S2", power=power))
    ((verdict, reason),) = answers(world.act(decide(node)))
    assert verdict == "rejected" and "another machine" in reason
    assert [call for call, _ in world.log] == ["read"]


def test_a_switch_without_its_intent_or_its_target_is_not_sent() -> None:
    """The intent was answered meanwhile."""
    left_over = manageable({"switching": Switching(power=PowerRequest.OFF, at=NOW, intent=99), "trying": NOW})
    assert moved(decide(left_over)).bmc.switching is None
    unwanted = manageable({"switching": Switching(power=PowerRequest.ON, at=NOW), "trying": NOW})
    assert moved(decide(unwanted)).bmc.switching is None


@pytest.mark.parametrize(("enforce", "desired"), [(True, PowerState.OFF), (False, None)])
def test_an_intent_determines_whether_its_power_is_enforced(enforce: bool, desired: PowerState | None) -> None:
    node = begun(manageable({"desired_power": PowerState.ON}), power="off", enforce=enforce)
    assert node.bmc.desired_power is PowerState.ON, "the former target applies until the change is done"
    world = World(replace(READING, power=PowerState.OFF))
    assert moved(world.act(decide(node))).bmc.desired_power is desired


@pytest.mark.parametrize(
    ("node", "params", "why"),
    [
        (manageable(), {"power": "reset", "enforce": True}, "use enforce only with on or off"),
        (manageable({"tries": (NOW,) * LOGIN_CAP}), {"power": "on"}, "3 logins failed or have an unknown result"),
        (manageable({"system_path": None}), {"power": "on"}, "submit manage"),
        (
            manageable(workflow=decommission(mode=DecommissionMode.REIMAGE)),
            {"power": "on"},
            "decommission 12 of this node is live",
        ),
        (replace(manageable(), management=M.ENROLL), {"power": "on"}, "the management of this node is enroll"),
        (replace(manageable(), management=M.UNMANAGED), {"power": "on"}, "the management of this node is unmanaged"),
    ],
)
def test_an_intent_that_cannot_be_carried_out_is_rejected_with_a_reason(
    node: Node, params: dict[str, Any], why: str
) -> None:
    decision = decide(asked(node, **params))
    ((verdict, reason),) = answers(decision)
    assert verdict == "rejected" and why in reason


def test_later_intents_wait_for_a_switch_in_progress_and_do_not_replace_it() -> None:
    node = begun(manageable(), power="on")
    behind: tuple[Intent, ...] = (intent(Action.PAUSE, reason="drill"), intent(Action.SET_POWER, power="off"))
    crowded = replace(node, intents=(*node.intents, *behind))
    decision = decide(crowded)
    assert isinstance(decision, Step) and writes(decision) == ()
    only_asked = replace(manageable(), intents=(*asked(manageable(), power="on").intents, *behind[1:]))
    assert answers(decide(only_asked))[0][0] == "superseded"


def test_a_power_intent_waits_for_a_verification_that_was_requested_before() -> None:
    node = asked(manageable({"asked_at": NOW}), power="on")
    after = moved(decide(node))
    assert (after.management, after.bmc.switching) == (M.VERIFYING, None)
