"""Claimed widgets in a test's own hands: committed when and as the test says, without a loop."""

from __future__ import annotations

from farrier.controller.verdict import Assessor
from farrier.model.runs import Claim, Finished, Lane, Verdict
from tests.support import toy
from tests.support.loop import BRISK, Shop, WidgetIO
from tests.support.toy import Answer, Shape


class Held:
    """Claimed widgets and their snapshots, to be finished as a test says."""

    def __init__(self, io: WidgetIO, claim: Claim, widgets: dict[int, toy.Widget]) -> None:
        self.io = io
        self.claim = claim
        self.widgets = widgets
        self._assessor: Assessor[toy.Widget, Shape, Answer] = Assessor(toy.WidgetKind(), BRISK)

    def finish(self, id_: int, outcome: object) -> Finished[Shape, Answer]:
        claimed = next(row for row in self.claim.rows if row.id == id_)
        widget = self.widgets[id_]
        return self._assessor.finish(claimed, self.claim.token, widget, outcome)

    async def commit(self, *runs: Finished[Shape, Answer], patient: bool = False) -> dict[int, Verdict]:
        results = await self.io.commit(runs, patient=patient)
        return {id_: result.verdict for id_, result in results.items()}


async def hold(shop: Shop, *ids: int, io: WidgetIO | None = None) -> Held:
    """Register the widgets, claim them and read them."""
    if ids:
        await shop.register(*ids)
    io = io or shop.io()
    claim = await io.claim(Lane.PERIODIC, 1000, None)
    loaded = await io.load([row.id for row in claim.rows])
    return Held(io, claim, dict(loaded.resources))
