"""The garbage collector skips exactly the objects that existed before the loop began."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from farrier import memory
from farrier.io import codec
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.layers import NodeStatus
from farrier.model.node.snapshot import Node
from tests.support.nodes import NOW, agent, node


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
    seen = MaasObservation(system_id="abc123", state=MaasStatus.DEPLOYED, since=NOW, read_at=NOW, fresh_at=NOW)
    whole = codec.encode(node(NodeStatus.ACTIVE, agent=agent(), maas=seen, conditions=()))
    read = codec.reader(Node, "a node")(whole)
    assert read.agent is not None
    assert not any(map(gc.is_tracked, (read, read.bmc, read.agent, read.agent.health, read.maas)))
