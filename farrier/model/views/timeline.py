"""The course of a resource over time as bars: a row for each layer, and a row for each stage of a node's workflow.

Pages draw these bars. Pure functions of the history and of views. A bar is the time between two changes of a layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby, zip_longest

import msgspec

from farrier.model import duration
from farrier.model.node.clocks import END_TO_END, StateClock
from farrier.model.node.layers import FAILED, SUCCEEDED, TERMINAL, DecommissionMode, OnboardingMode, WorkflowKind
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.spec import STAGE_LAYERS
from farrier.model.node.stages import path_of
from farrier.model.views.history import HistoryEntry
from farrier.model.views.nodes import WorkflowView

DONE, FAILED_ATTEMPT, SKIPPED, TO_COME = "done", "failed", "skipped", "to come"
"""States that a stage or an attempt can have in addition to the statuses of workflows."""

# Prefix of the layers that record the values changed by intent `set`.
_DETAILS = "details."
_ATTEMPTS = frozenset({W.RUNNING.value, DONE, FAILED_ATTEMPT, W.CANCELLED.value})
_WAITS = frozenset(status.value for status in FAILED)
# Steps of an axis in seconds, and the largest number of them that a narrow screen can label.
_STEPS = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000, 31_536_000)
_MOST_TICKS = 4


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A state that lasted from `begin` to `end`. `result` is the reason of the change that ended the state; it is empty
    while the state lasts."""

    state: str
    begin: datetime
    end: datetime
    result: str = ""

    @property
    def lasts(self) -> timedelta:
        """The length of the bar."""
        return self.end - self.begin


class TimelineRow(msgspec.Struct, frozen=True, kw_only=True):
    """A layer or a stage, and its bars, the oldest first. `note` is the reason of its last result."""

    name: str
    state: str
    bars: tuple[Bar, ...] = ()
    note: str = ""

    @property
    def took(self) -> timedelta | None:
        """The total time of all bars; None without a bar."""
        return sum((bar.lasts for bar in self.bars), timedelta(0)) if self.bars else None

    @property
    def attempts(self) -> int:
        """The number of attempts of a stage."""
        return sum(bar.state in _ATTEMPTS for bar in self.bars)

    @property
    def waited(self) -> timedelta:
        """How long a stage waited for its next attempt or for an operator."""
        return sum((bar.lasts for bar in self.bars if bar.state in _WAITS), timedelta(0))


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of bars between two times."""

    begin: datetime
    end: datetime
    layers: tuple[TimelineRow, ...]
    stages: tuple[TimelineRow, ...] = ()

    def place(self, moment: datetime) -> float:
        """Return the position of a moment between the two times, in percent."""
        whole = (self.end - self.begin).total_seconds()
        part = (moment - self.begin).total_seconds()
        return round(min(max(100 * part / whole, 0), 100), 2) if whole > 0 else 0

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield the marks of the axis: the position of each mark in percent, and its time since the beginning."""
        whole = (self.end - self.begin).total_seconds()
        step = next((step for step in _STEPS if whole / step <= _MOST_TICKS), _STEPS[-1])
        for number in range(1, min(int(whole / step), _MOST_TICKS) + 1):
            after = timedelta(seconds=number * step)
            yield self.place(self.begin + after), duration.human(after)


def of_workflow(
    workflow: WorkflowView, changes: Sequence[HistoryEntry], clocks: Iterable[StateClock], now: datetime
) -> Timeline:
    """Return the timeline of a node during its workflow. `changes` contains the node's changes since the workflow
    began, the newest first."""
    end = workflow.ended_at or now
    between = [change for change in reversed(changes) if workflow.created_at <= change.at <= end]
    shown = tuple(_layers(between, clocks, workflow.created_at, end))
    return Timeline(begin=workflow.created_at, end=end, layers=shown, stages=tuple(_stages(workflow, between, end)))


def of_changes(changes: Sequence[HistoryEntry], clocks: Iterable[StateClock], end: datetime) -> Timeline | None:
    """Return the timeline of a resource of any kind; None without changes. `changes` contains the newest change
    first."""
    if not changes:
        return None
    begin = changes[-1].at
    return Timeline(begin=begin, end=end, layers=tuple(_layers(list(reversed(changes)), clocks, begin, end)))


def _layers(
    changes: Sequence[HistoryEntry], clocks: Iterable[StateClock], begin: datetime, end: datetime
) -> Iterator[TimelineRow]:
    """Yield a row for each layer that has a clock or has changed, except for the layers of stages and of details."""
    states = {clock.layer: clock for clock in clocks if clock.layer != END_TO_END}
    inner = set(STAGE_LAYERS.values())
    changed = dict.fromkeys(each.layer for each in changes if not each.layer.startswith(_DETAILS))
    for layer in dict.fromkeys((*states, *changed)):
        own = [each for each in changes if each.layer == layer]
        if layer in inner:
            continue
        if own:
            bars = tuple(_bars(own, begin, end))
            yield TimelineRow(name=layer, state=own[-1].target_state, bars=bars)
        elif states[layer].since <= end:
            state = states[layer].state
            yield TimelineRow(name=layer, state=state, bars=(Bar(state=state, begin=begin, end=end),))


def _bars(changes: Sequence[HistoryEntry], begin: datetime, end: datetime) -> Iterator[Bar]:
    """Yield the bars for the states of one layer between two times."""
    first = changes[0]
    if first.source_state is not None and first.at > begin:
        yield Bar(state=first.source_state, begin=begin, end=first.at, result=first.reason)
    for change, following in zip_longest(changes, changes[1:]):
        if following is None:
            yield Bar(state=change.target_state, begin=change.at, end=end)
        else:
            yield Bar(state=change.target_state, begin=change.at, end=following.at, result=following.reason)


class _Piece(msgspec.Struct, frozen=True):
    """A period in which neither the stage nor the status of a workflow changed."""

    stage: str | None
    status: str
    begin: datetime
    reason: str


def _stages(workflow: WorkflowView, changes: Sequence[HistoryEntry], end: datetime) -> Iterator[TimelineRow]:
    """Yield a row for each stage of the mode's path, and for each other stage that ran."""
    pieces = tuple(_pieces(workflow, changes))
    bars: dict[str, list[Bar]] = {}
    for piece, following in zip_longest(pieces, pieces[1:]):
        if piece.stage is not None and piece.status not in TERMINAL:
            bars.setdefault(piece.stage, []).append(_bar(piece, following, end))
    skipped = {each.stage: each.why for each in workflow.skipped}
    for stage in _order(workflow, tuple(bars)):
        own = tuple(bars.get(stage, ()))
        if stage in skipped:
            yield TimelineRow(name=stage, state=SKIPPED, bars=own, note=skipped[stage])
        elif own:
            yield TimelineRow(name=stage, state=own[-1].state, bars=own, note=own[-1].result)
        else:
            yield TimelineRow(name=stage, state=TO_COME if workflow.ended_at is None else "")


def _pieces(workflow: WorkflowView, changes: Sequence[HistoryEntry]) -> Iterator[_Piece]:
    stage, status = None, W.PENDING.value
    layers = (workflow.kind, STAGE_LAYERS[WorkflowKind(workflow.kind)])
    for _, together in groupby((each for each in changes if each.layer in layers), lambda each: each.version):
        for change in together:
            if change.layer == workflow.kind:
                status = change.target_state
            else:
                stage = change.target_state
        yield _Piece(stage, status, change.at, change.reason)


def _bar(piece: _Piece, following: _Piece | None, end: datetime) -> Bar:
    """Return the bar of a piece. Instead of the status `running`, the bar shows the result of the attempt that ran."""
    if following is None:
        return Bar(state=piece.status, begin=piece.begin, end=end)
    state = piece.status
    if state == W.RUNNING:
        state = FAILED_ATTEMPT if following.status in FAILED else following.status
    if state in (W.RUNNING, *SUCCEEDED):
        state = DONE
    return Bar(state=state, begin=piece.begin, end=following.begin, result=following.reason)


def _order(workflow: WorkflowView, ran: Sequence[str]) -> list[str]:
    """Return the stages of the mode's path in order. A stage that is not on the path follows the stage that ran before
    it."""
    modes = OnboardingMode if workflow.kind == WorkflowKind.ONBOARDING else DecommissionMode
    try:
        order: list[str] = [stage.value for stage in path_of(modes(workflow.mode or ""), workflow.cleaned_by)]
    except ValueError:  # no mode yet, or one of a newer release
        order = []
    before: str | None = None
    for stage in ran:
        if stage not in order:
            order.insert(0 if before is None else order.index(before) + 1, stage)
        before = stage
    return order
