"""Widgets whose runs the test itself marks and commits, without a loop."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID, uuid4

from farrier.controller.outcome_validator import OutcomeValidator
from farrier.io.calls.controllers import PostgresControllers
from farrier.model.loop.controllers import SHARDS
from farrier.model.loop.runs import CommitVerdict, Finished, Loaded, Marking
from tests.support import toy
from tests.support.fence import Fence
from tests.support.loop import BRISK, Shop, WidgetIO
from tests.support.toy import Answer, Shape


class Held:
    """The owner of all shards of widgets, and snapshots of some; a test gives each the outcome of its run."""

    def __init__(self, io: WidgetIO, owner: UUID, epochs: dict[int, int], loaded: Loaded[toy.Widget]) -> None:
        self.io = io
        self.owner = owner
        self.epochs = epochs
        self.loaded = loaded
        self.markings = 0
        self._validator: OutcomeValidator[toy.Widget, Shape, Answer] = OutcomeValidator(toy.WidgetKind(), BRISK)

    async def reload(self) -> None:
        """Load the same widgets again."""
        ids: Collection[int] = self.loaded.resources
        self.loaded = await self.io.load(list(ids))

    def finish(self, id_: int, outcome: object) -> Finished[Shape, Answer]:
        turn = Fence(self.owner, self.epochs).turn(id_, self.loaded)
        return self._validator.finish(turn, self.loaded.resources[id_], outcome)

    async def mark(self, *ids: int) -> frozenset[int]:
        """Record a mark for a step of each of these widgets."""
        self.markings += 1
        marking = Marking(number=self.markings, begun=dict.fromkeys(ids, "work"), ended=set(), epochs=self.epochs)
        return await self.io.mark(marking, self.owner)

    async def commit(self, *runs: Finished[Shape, Answer]) -> dict[int, CommitVerdict]:
        results = await self.io.commit(runs, self.owner)
        return {id_: result.verdict for id_, result in results.items()}


async def take(shop: Shop) -> tuple[UUID, dict[int, int]]:
    """Register a controller that takes every free shard of widgets; returns its id and the epochs."""
    controllers, owner = PostgresControllers(shop.pool), uuid4()
    await controllers.join(owner, "test", [toy.KIND])
    return owner, dict(await controllers.take(owner, toy.KIND, range(SHARDS)))


async def hold(shop: Shop, *ids: int, io: WidgetIO | None = None) -> Held:
    """Register the widgets, take their shards and load them."""
    await shop.register(*ids)
    owner, epochs = await take(shop)
    io = io or shop.io()
    return Held(io, owner, epochs, await io.load(ids))
