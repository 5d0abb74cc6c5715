"""The garbage collector skips exactly the objects that existed before the loop began."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import msgspec
import pytest

from farrier import memory
from farrier.io import codec
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine.health import Health
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.layers import Management, NodeStatus
from farrier.model.node.snapshot import NO_TIME, Agent, Bmc, Node


@pytest.fixture
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


class Ring:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("collector")
def test_live_objects_are_excluded_from_later_collections_and_new_garbage_is_collected() -> None:
    gone = weakref.ref(Ring())
    before = gc.get_freeze_count()
    memory.settle()
    memory.settle()
    assert gone() is None, "new garbage was not collected"
    assert gc.get_freeze_count() > before
    later = weakref.ref(Ring())
    gc.collect()
    assert later() is None


def test_the_collector_does_not_visit_the_snapshots_of_nodes() -> None:
    state = MaasObservation(
        system_id="abc123", state=MaasStatus.DEPLOYED, since=NO_TIME, read_at=NO_TIME, fresh_at=NO_TIME
    )
    whole = Node(
        id=1,
        name="a",
        version=1,
        status=NodeStatus.ACTIVE,
        management=Management.MANAGEABLE,
        bmc=Bmc(),
        agent=Agent(enrolled_at=NO_TIME, health=Health()),
        maas=state,
    )
    node = codec.reader(Node, "a node")(msgspec.json.encode(whole).decode())
    assert node.agent is not None
    assert not any(map(gc.is_tracked, (node, node.bmc, node.agent, node.agent.health, node.maas)))
