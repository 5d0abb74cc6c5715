"""The handler of every kind follows its table of actions: in each state, an accepted action is carried out, and
any other one is rejected with the states that accept it. A new kind is added to `KINDS`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from farrier.handlers.ib_partition.handler import PARTITION_KIND, PartitionHandler
from farrier.handlers.maas_region.handler import REGION_KIND, RegionHandler
from farrier.handlers.network_segment.handler import SEGMENT_KIND, SegmentHandler
from farrier.handlers.resource.extension import Extension
from farrier.handlers.resource.kind import Guarded, ResourceKind
from farrier.handlers.resource.requests import accept
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.kinds.resource import Answer, Pending, Resource
from farrier.model.kinds.spec import KindAction, KindSpec
from farrier.model.loop.outcome import Decision, Deleted, DoNothing, Step, Transition, Update, Wait
from farrier.model.maas import region
from farrier.model.maas.region import MaasRegion
from farrier.model.network import segment
from farrier.model.network.segment import NetworkSegment
from farrier.model.partition import partition
from farrier.model.partition.partition import IbPartition
from farrier.model.partition.ufm import RateLimit
from farrier.protocols import StateHandler
from farrier.wiring.kinds import loop_of
from tests.support import crates
from tests.support.crates import Crate, CrateHandler

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BASE: Mapping[str, Any] = {
    "id": 1,
    "version": 1,
    "name": "x",
    "site": "ams",
    "state": "",
    "state_entered_at": NOW - timedelta(hours=1),
    "created_at": NOW - timedelta(hours=1),
}


class Subject(msgspec.Struct, frozen=True):
    """A kind with a resource that refuses nothing for other reasons than its state, and parameters for its actions."""

    spec: KindSpec
    kind: ResourceKind[Any]
    handler: StateHandler[Any, Any, Any, Any]
    resource: Resource
    params: Mapping[str, Mapping[str, Any]]


KINDS = (
    Subject(
        region.SPEC,
        REGION_KIND,
        RegionHandler(),
        MaasRegion(**BASE, url="http://maas.test/MAAS", configured_at=NOW),
        {"delete": {}},
    ),
    Subject(
        segment.SPEC,
        SEGMENT_KIND,
        SegmentHandler(),
        NetworkSegment(**BASE, prefixes=("10.0.0.0/24",), mtu=1500),
        {"update": {"mtu": 9000}, "delete": {}},
    ),
    Subject(
        partition.SPEC,
        PARTITION_KIND,
        PartitionHandler(),
        IbPartition(**BASE, pkey=17, mtu_limit=2, rate_limit=RateLimit.G2_5, service_level=0),
        {"update": {"service_level": 1}, "delete": {}},
    ),
    Subject(
        crates.SPEC,
        crates.KIND,
        CrateHandler(),
        Crate(**BASE, size=1, labels=(), slot=1),
        {"update": {"labels": ["a"]}, "delete": {}},
    ),
)
PLACES = [
    pytest.param(subject, state, action, id=f"{subject.spec.name}-{state}-{action}")
    for subject in KINDS
    for state in subject.spec.states
    for action in subject.spec.actions
]


def asked(id_: int, action: str, **params: object) -> Pending:
    return Pending(id=id_, action=action, params=params, created_at=NOW)


def answer_of(decision: Decision[Any, Any, Any]) -> Answer | None:
    if isinstance(decision, Step):
        return None
    return next((write for write in decision.writes if isinstance(write, Answer)), None)


def test_every_built_in_kind_is_tested_with_all_its_actions() -> None:
    assert {spec.name for spec in BUILT_IN} < {subject.spec.name for subject in KINDS}
    assert all(subject.params.keys() == subject.spec.actions.keys() for subject in KINDS)


@pytest.mark.parametrize(("subject", "state", "action"), PLACES)
def test_the_handler_accepts_an_action_exactly_in_the_states_of_the_table(
    subject: Subject, state: str, action: str
) -> None:
    pending = asked(7, action, **subject.params[action])
    resource = msgspec.structs.replace(subject.resource, state=state, requests=(pending,))
    resource = msgspec.convert(msgspec.to_builtins(resource), type(resource))  # with the state as its own type
    guarded = subject.kind.guarded(subject.handler)
    decision = guarded.handle(resource, NOW)
    if answer_of(decision) is None and isinstance(decision, Transition):
        decision = guarded.handle(decision.to, NOW)  # the intent was left to the next state
    answer = answer_of(decision)
    assert answer is not None and answer.request == 7
    accepting = subject.spec.states_accepting(action)
    if state in accepting:
        assert answer.accepted, answer.reason
    elif state in subject.spec.terminal:
        assert answer == Answer(7, False, f"this {subject.spec.noun} has ended")
    else:
        there = f"{action} is accepted in state {', '.join(accepting)}; this {subject.spec.noun} is {state}"
        assert not answer.accepted and answer.reason.startswith(there)


# --- the guard around a handler


class Deciding(StateHandler[Any, Any, Any, Any]):
    """Records the intents that it is shown, and returns one decision."""

    def __init__(self, decision: Decision[Any, Any, Any]) -> None:
        self._decision = decision
        self.shown: tuple[str, ...] = ()

    @override
    def handle(self, resource: Any, now: datetime) -> Decision[Any, Any, Any]:
        self.shown = tuple(request.action for request in resource.requests)
        return self._decision


def crate(state: str, *requests: Pending) -> Crate:
    return Crate(**{**BASE, "state": state}, size=1, labels=(), slot=1, requests=requests)


async def act(_services: object) -> DoNothing[Answer]:
    return DoNothing()


STEP: Step[Any, Any, Any] = Step(name="unpack", act=act, deadline=timedelta(seconds=1), reads_only=True)
REFUSAL = Answer(1, False, "delete is accepted in state packed; this crate is packing; wait until it is packed")


def test_a_handler_sees_only_the_intents_that_the_state_accepts() -> None:
    inner = Deciding(DoNothing())
    requests = (asked(1, "update"), asked(2, "paint"), asked(3, "delete"))
    decision = crates.KIND.guarded(inner).handle(crate("packed", *requests), NOW)
    assert inner.shown == ("update", "delete")
    assert answer_of(decision) == Answer(2, False, "paint is not an action of any crate")


@pytest.mark.parametrize(
    "decision",
    [
        Transition(to=crate("packed"), reason="x", cause="x", writes=(accept(asked(9, "update")),)),
        Update(to=crate("packing"), reason="x", writes=(accept(asked(9, "update")),)),
        Wait(reason="x", requeue_after=timedelta(seconds=3), writes=(accept(asked(9, "update")),)),
        DoNothing(writes=(accept(asked(9, "update")),)),
        Deleted(writes=(accept(asked(9, "update")),)),
    ],
    ids=lambda decision: type(decision).__name__,
)
def test_refusals_are_committed_with_the_decision(decision: Any) -> None:
    guarded = crates.KIND.guarded(Deciding(decision))
    for given in (
        guarded.handle(crate("packing", asked(1, "delete")), NOW),
        guarded.recover(crate("packing", asked(1, "delete")), NOW, "unpack"),
    ):
        assert given == msgspec.structs.replace(decision, writes=(REFUSAL, *decision.writes))
    assert guarded.handle(crate("packing"), NOW) is decision


def test_refusals_are_committed_before_a_step_that_begins_at_once() -> None:
    guarded = crates.KIND.guarded(Deciding(STEP))
    decision = guarded.handle(crate("packing", asked(1, "delete")), NOW)
    assert isinstance(decision, Wait)
    assert (decision.writes, decision.requeue_after) == ((REFUSAL,), timedelta(0))
    assert guarded.handle(crate("packing"), NOW) is STEP


def test_a_recovery_step_is_not_deferred_for_a_refusal() -> None:
    guarded = crates.KIND.guarded(Deciding(STEP))
    assert guarded.recover(crate("packing", asked(1, "delete")), NOW, "unpack") is STEP


def test_a_kind_of_another_package_is_guarded_by_default() -> None:
    made: Extension[Crate, Answer, Any] = Extension(spec=crates.SPEC, snapshot=Crate, handler=CrateHandler())
    assert isinstance(loop_of(made, None).handler, Guarded)


def test_an_action_without_states_is_accepted_in_all_states_that_are_not_terminal() -> None:
    spec = msgspec.structs.replace(crates.SPEC, actions={"paint": KindAction(description="x")})
    assert spec.states_accepting("paint") == ("packing", "packed", "emptying/unpack")
    assert spec.states_accepting("create") == ()
