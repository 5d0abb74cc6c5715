"""From every state that a node can reach, some accepted intents lead to `active`, and some to `deleted`.

Tested for nodes with an agent, for nodes whose tasks a worker ends, and for agentless nodes, each in MAAS and not in
MAAS. The ways use only intents and what follows by itself: tasks succeed, the agent is well, the region reads the
machine and ends its work. Mishaps only lead to more states.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from farrier.model.intents.actions import Action
from farrier.model.machine.bmc import PowerState
from farrier.model.node.layers import Management as M
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.snapshot import Bmc, Node, TaskStatus
from tests.support import exploration, walks_in_maas
from tests.support.exploration import FRESH_NODES, STIMULI, Place, Stimulus, asks, beats, ends, enrols, kind_of
from tests.support.nodes import NOW, agent, node, onboarding
from tests.support.played_region import ADDRESS, DEPLOYED, MAC, NAME, SOMEBODY, SYSTEM_ID, S, Shown
from tests.support.stages import SITE

FAMILIES = [(machine, place) for machine in ("agent", "worker", "agentless") for place in ("without MAAS", "in MAAS")]
FORCE = {"force": True, "reason": "dead"}


def intents(*asked: tuple[Action, dict[str, Any]]) -> dict[str, Stimulus]:
    return {f"{action} {params}": asks(action, params) for action, params in asked}


CLEANED = "cleaned by hand"
OFTEN = intents(
    (Action.RELEASE, {"key": "cleaning/not_scrubbed", "reason": CLEANED}),
    (Action.RELEASE, {"key": "cleaning/validation_failed", "reason": CLEANED}),
    *((action, {}) for action in (Action.CANCEL, Action.DELETE, Action.REACTIVATE, Action.RETRY_STAGE)),
)
OF_THE_REGION = ("region/machine_deleted", "region/disagreement")
SELDOM = intents(
    (Action.SET_POWER, {"power": "on"}),
    (Action.RELEASE, {}),
    (Action.QUARANTINE, {"reason": "looked at"}),
    *((action, {}) for action in (Action.RESUME, Action.RESTART_CLEAN, Action.ADOPT_OBSERVED_STATE)),
)

# What happens to the BMC of a node, and pauses.
OF_THE_BMC = ("set_power", "set_bmc", "clear_bmc", "manage", "adopt", "onboard", "pause", "unpause", "BMC")


def of_operators(machine: str, *, in_maas: bool, seldom: bool) -> dict[str, Stimulus]:
    """The intents with which an operator begins workflows; those of an agentless node with force."""
    mode = "reimage" if in_maas else "soft_reset"
    force = {} if machine == "agent" else FORCE
    begun = intents(
        (Action.DECOMMISSION, {"mode": mode} | force),
        (Action.REMOVE, force),
        (Action.ONBOARD, {"mode": "deploy" if in_maas else "manual"}),
    )
    if in_maas:
        released = {
            f"release {key}": without_a_machine(asks(Action.RELEASE, {"key": key, "reason": CLEANED}))
            for key in OF_THE_REGION
        }
        return begun | OFTEN | {"drain": without_a_machine(asks(Action.DRAIN, force))} | released
    if not seldom:
        return begun | OFTEN
    more = intents(
        (Action.DRAIN, force),
        (Action.DECOMMISSION, {"mode": "full_decommission"} | force),
        (Action.DECOMMISSION, {"mode": mode} | FORCE),
    )
    return begun | OFTEN | SELDOM | more


def without_a_machine(stimulus: Stimulus) -> Stimulus:
    """What an operator does with a node whose machine is no longer in MAAS, and so cannot be imaged again."""
    return lambda place: stimulus(place) if place.node.maas_id is None else None


def on_its_system(stimulus: Stimulus) -> Stimulus:
    """What an agent does, which runs only on a machine that is deployed."""

    def runs(place: Place) -> Place | None:
        deployed = place.node.site is None or (place.machine is not None and place.machine.status is S.DEPLOYED)
        return stimulus(place) if deployed else None

    return runs


def in_time(stimulus: Stimulus) -> Stimulus:
    """What happens only after the region has ended its work on the machine."""
    return lambda place: stimulus(walks_in_maas.goes_on(place) or place)


def enrols_well(place: Place) -> Place | None:
    """The agent enrols, and sends its first heartbeat at once."""
    return beats()(enrols(place))


def an_hour_passes(place: Place) -> Place:
    """An hour passes, in which the region is read."""
    later = STIMULI["an hour passes"](place)
    assert later is not None
    return walks_in_maas.read(later) or later


def stimuli(machine: str, *, in_maas: bool, seldom: bool) -> tuple[dict[str, Stimulus], dict[str, Stimulus]]:
    """What happens to a node of this family, and its mishaps."""
    happens = of_operators(machine, in_maas=in_maas, seldom=seldom) | {"an hour passes": an_hour_passes}
    mishaps: dict[str, Stimulus] = {}
    if machine == "agent":
        happens |= {"enrols": on_its_system(enrols_well), "is well": on_its_system(beats())}
    if machine == "agentless" and not in_maas:
        happens |= {name: each for name, each in STIMULI.items() if name.startswith(OF_THE_BMC)}
    if machine != "agentless":
        happens |= {"tasks succeed": ends(TaskStatus.SUCCEEDED)}
    if seldom and (machine == "worker" or (machine == "agent" and not in_maas)):
        mishaps |= {"tasks fail": ends(TaskStatus.FAILED)}
    if in_maas:
        happens |= {name: each for name, each in walks_in_maas.PROGRESS.items() if name != "is read"}
    if in_maas and seldom:
        mishaps |= walks_in_maas.OFTEN
    elif in_maas:
        happens = {name: in_time(each) for name, each in happens.items()}
    return happens, mishaps


def starts(machine: str, *, in_maas: bool) -> list[Place]:
    """A node that was never in service, and one in service. Outside of MAAS, also nodes without BMC details."""
    fields: dict[str, Any] = {
        "name": NAME,
        "macs": (MAC,),
        "site": SITE.name if in_maas else None,
        "agentless": machine != "agent",
        "management": M.MANAGEABLE,
        "bmc_address": f"https://{ADDRESS}",
        "bmc_credential": "env:BMC",
        "bmc": Bmc(serial="SN-1", power=PowerState.ON, power_at=NOW, system_path="/redfish/v1/Systems/1"),
    }
    pending = onboarding(W.PENDING, mode=None, stage=None, mode_given_at=None)
    fresh: Node = node(N.ENROLLING, workflow=pending, **fields)
    served: Node = node(N.ACTIVE, agent=agent() if machine == "agent" else None, **fields)
    if not in_maas:
        bare = (replace(each, agentless=fresh.agentless) for each in FRESH_NODES if machine != "worker")
        return [Place(each, NOW) for each in (fresh, served, *bare)]
    served = replace(served, maas_id=SYSTEM_ID)
    seen = walks_in_maas.read(Place(served, NOW, machine=replace(DEPLOYED, locked=True)))
    assert seen is not None
    return [Place(fresh, NOW, machine=Shown(status=S.NEW, power="off")), seen]


def is_ending(place: Place) -> bool:
    """Whether the node is being deleted, or a person has to return its machine first."""
    taken = place.machine is not None and place.machine.owner == SOMEBODY
    return place.node.deleting or place.node.status is N.DELETED or taken


@pytest.mark.timeout(1500)  # the long walks take minutes of a processor, which other tests may use, too
@pytest.mark.parametrize("seldom", [False, pytest.param(True, marks=pytest.mark.full)], ids=["often", "all"])
@pytest.mark.parametrize(("machine", "place"), FAMILIES)
def test_from_every_reachable_state_intents_lead_to_active_and_to_deleted(
    machine: str, place: str, seldom: bool
) -> None:
    in_maas = place == "in MAAS"
    happens, mishaps = stimuli(machine, in_maas=in_maas, seldom=seldom)
    places: list[Place] = []
    found = exploration.explore(starts(machine, in_maas=in_maas), happens, mishaps=mishaps, found_in=places)
    by_kind = {kind_of(each): each for each in places}
    reached = {each.node.status for each in places}
    assert {N.ENROLLING, N.ACTIVE, N.DRAINING, N.RETIRED, N.REMOVING, N.DELETED} <= reached
    if (machine, in_maas) == ("agentless", False):
        assert reached == set(N)
        assert {each.node.management for each in places} == set(M) - {M.VERIFYING, M.ADOPTING}, "none rests in these"
    for goal in (N.ACTIVE, N.DELETED):
        back = exploration.reach(found, {kind for kind, each in by_kind.items() if each.node.status is goal})
        dead = [each for kind, each in by_kind.items() if kind not in back]
        dead = [each for each in dead if goal is N.DELETED or not is_ending(each)]
        assert not dead, f"no way leads to {goal} from {len(dead)} of {len(places)} places, such as {dead[0]}"
