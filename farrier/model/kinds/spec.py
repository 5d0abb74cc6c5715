"""Kinds of resources as data: layers of states with their limits, edges, and actions.

A `KindSpec` defines all generic behaviour of a kind, and its constructor validates it. The database refuses everything
that the spec does not allow. Metrics, limits and views use the names in the spec. `handlers.resource` and `io.resource`
implement the spec. This module is pure and does not depend on any kind; `built_in` lists the kinds of farrier.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from itertools import permutations

import msgspec

from farrier.errors import ConfigError
from farrier.model.intents import acceptance
from farrier.model.intents.acceptance import Allowed, Refused
from farrier.model.intents.params import NoParams, Params, describe
from farrier.model.kinds import measures
from farrier.model.kinds.measures import KindMetric

LAYER = "state"
"""The name of the first layer of every kind whose table has the columns of `farrier.resources`."""
CREATE = "create"
"""The action that creates a resource. The database answers it."""

# The table `farrier.kinds` has the same rules. A name becomes a label of metrics, a part of settings, and an argument
# of triggers.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_STATE = re.compile(r"[a-z][a-z0-9_]{0,39}(/[a-z][a-z0-9_]{0,39})?")
_RELATION = re.compile(r"[a-z_][a-z0-9_]{0,62}\.[a-z_][a-z0-9_]{0,62}")
# The database itself fills these columns of `farrier.resources`, so `create` must not have parameters with these names.
# The column `site` is not among them: `create` may set it.
_FILLED = frozenset(
    {"id", "name", "version", "state", "state_entered_at", "created_at", "ended_at", "last_error", "requests"}
)
RESERVED = _FILLED | {"site", "run"}
"""Forbidden names for layers and for columns that runs write. They are the columns of `farrier.resources`, and `run`:
in each element of a commit, the key `run` identifies the run."""


class KindEdge(msgspec.Struct, frozen=True):
    """An allowed transition. `trigger` describes the event because of which the handler makes the transition. `owner`
    is the component that causes the event; if `owner` is empty, the handler itself causes it."""

    source: str
    target: str
    trigger: str
    owner: str = ""


class KindState(msgspec.Struct, frozen=True, kw_only=True):
    """How long a resource may be in a state. Either `limit` is set, or `why_none` is the reason why the state has no
    limit. `unless` describes an exception to the limit. Views show this text, but farrier does not evaluate it."""

    limit: timedelta | None = None
    why_none: str = ""
    unless: str = ""

    @property
    def note(self) -> str:
        """The text that views show beside the limit."""
        return f"unless {self.unless}" if self.unless else self.why_none


class KindAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action of a resource. Only the states in `accepted_in` accept the action; if this is None, all states that are
    not terminal accept it. `instead` is the alternative that a refusal in the other states recommends. If `interrupts`
    is set, the action cancels a running step that only reads."""

    description: str
    params: type[Params] = NoParams
    accepted_in: Collection[str] | None = None
    instead: str = ""
    interrupts: bool = False


class KindLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A set of states with a clock, independent of the other layers of the resource. The kind's table has the columns
    NAME and NAME_entered_at for the layer. `initial` is the state of a new row, or the set of states in which a new row
    may begin. A single state becomes the default of the column. If `edges` is None, any state may follow any other.

    `label` is the value of the label `kind` in metrics, and `key` is the prefix of the names of the layer's limits. An
    empty value is derived from the kind's name. If `relation` is set, it is the name of a separate table for the layer;
    a resource may have no row in this table. If `inside` is set, it is a pair (layer, state), which refers to a state
    of another layer. The states of this layer are then substates of that state, and their clocks replace the clock of
    that state.
    """

    name: str
    states: Mapping[str, KindState]
    edges: tuple[KindEdge, ...] | None
    initial: str | frozenset[str]
    terminal: frozenset[str] = frozenset()
    label: str = ""
    key: str = ""
    relation: str = ""
    inside: tuple[str, str] | None = None

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The edges as pairs (from, to)."""
        if self.edges is None:
            return frozenset(permutations(self.states, 2))
        return frozenset((edge.source, edge.target) for edge in self.edges)

    @property
    def first(self) -> frozenset[str]:
        """The states in which a new row may begin."""
        return frozenset({self.initial}) if isinstance(self.initial, str) else self.initial

    @property
    def entered(self) -> tuple[str, ...]:
        """The states that a run may enter. In a layer with a separate table, these include the initial states. In any
        other layer, the INSERT of the resource sets the initial state."""
        targets = (self.first if self.relation else frozenset()) | {target for _, target in self.pairs}
        return tuple(str(state) for state in self.states if state in targets)

    @property
    def left(self) -> tuple[str, ...]:
        """The states that a run may leave."""
        sources = {source for source, _ in self.pairs}
        return tuple(str(state) for state in self.states if state in sources)


class KindSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a kind as data. Raises ConfigError if it is inconsistent.

    `what` names one resource in a sentence ("a network segment"). `relation` is the table with its schema. The name of
    a state may contain a substate, as in "deleting/db_delete". `states`, `edges`, `initial` and `terminal` define the
    first layer. A resource ends when its first layer enters a terminal state. `layers` are the further layers. The
    fields of `create` are columns of the table; if `create` is None, clients cannot create resources. `actions` are all
    other actions. `metrics` are counted from the samples in the handler's outcomes. If `by_model` is set, limits may
    depend on the column `model` of the table. `steady` is the state that a resource seldom leaves. An alert reports
    resources that leave this state soon after entering it.
    """

    name: str
    what: str
    relation: str
    states: Mapping[str, KindState]
    edges: tuple[KindEdge, ...]
    initial: str | frozenset[str]
    terminal: frozenset[str]
    layer: str = LAYER
    key: str = ""
    layers: tuple[KindLayer, ...] = ()
    create: type[Params] | None = NoParams
    actions: Mapping[str, KindAction] = {}
    metrics: tuple[KindMetric, ...] = ()
    by_model: bool = False
    steady: str = ""

    def __post_init__(self) -> None:
        for fault in _faults(self):
            raise ConfigError(f"kind {self.name}: {fault}")

    @property
    def every_layer(self) -> tuple[KindLayer, ...]:
        """The first layer and all further layers, each with its label and its key."""
        first = KindLayer(
            name=self.layer,
            states=self.states,
            edges=self.edges,
            initial=self.initial,
            terminal=self.terminal,
            label=self.name,
            key=self.key or self.name,
        )
        others = (
            msgspec.structs.replace(each, label=label_, key=each.key or label_)
            for each in self.layers
            for label_ in (each.label or f"{self.name}_{each.name}",)
        )
        return first, *others

    @property
    def from_template(self) -> bool:
        """Whether the kind's table has the columns of `farrier.resources`."""
        return self.layer == LAYER

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The edges of the first layer as pairs (from, to)."""
        return self.every_layer[0].pairs

    @property
    def noun(self) -> str:
        """The display name `what` without its article, for texts such as "no network segment is named x"."""
        article, _, rest = self.what.partition(" ")
        return rest if article in ("a", "an") and rest else self.what

    @property
    def requests(self) -> Mapping[str, KindAction]:
        """All actions, including `create` if clients may create resources."""
        if self.create is None:
            return self.actions
        return {CREATE: KindAction(description=f"create {self.what}", params=self.create), **self.actions}

    def states_accepting(self, action: str) -> tuple[str, ...]:
        """Return the states in which a resource accepts the action, in order; empty for `create` and for an unknown
        action."""
        if action not in self.actions:
            return ()
        chosen = self.actions[action].accepted_in
        return tuple(
            state for state in self.states if state not in self.terminal and (chosen is None or state in chosen)
        )

    def columns_of_layers(self) -> tuple[str, ...]:
        """Return the columns of the further layers in the kind's table."""
        return tuple(each.name for each in self.layers if not each.relation)

    def columns_of_create(self) -> tuple[str, ...]:
        """Return the columns that `create` fills."""
        return () if self.create is None else tuple(f.encode_name for f in msgspec.structs.fields(self.create))


def check(spec: KindSpec, action: str, state: str) -> Allowed | Refused:
    """Return whether a resource of the kind accepts the action in this state."""
    if state in spec.terminal:
        return acceptance.ended(spec.noun)
    if action not in spec.actions:
        return Refused(f"{action} is not an action of any {spec.noun}")
    accepted, instead = spec.states_accepting(action), spec.actions[action].instead
    return acceptance.in_state(action, state, accepted, noun=spec.noun, instead=instead)


def is_in(state: str, wanted: str) -> bool:
    """Return whether `wanted` equals the state, or equals the state without its substate."""
    return wanted in (state, state.partition("/")[0])


def label(state: str) -> tuple[str, str]:
    """Return the state as values of metric labels: a pair (state, substate)."""
    first, _, second = state.partition("/")
    return first, second


def _faults(spec: KindSpec) -> Iterator[str]:
    if not _NAME.fullmatch(spec.name):
        yield f"its name must match {_NAME.pattern}"
    if not _RELATION.fullmatch(spec.relation):
        yield (
            f"its relation must be written with its schema, such as farrier.{spec.name}s; this one is {spec.relation!r}"
        )
    if not spec.what.strip():
        yield "`what` is missing; expected a text such as 'a network segment'"
    first, *others = spec.every_layer
    yield from _faults_of_states(first)
    if spec.create is not None and spec.from_template and len(first.first) > 1:
        yield (
            f"its initial states are {', '.join(sorted(first.first))}, and `create` cannot choose between them; set "
            "`initial` to one state, or `create` to None"
        )
    if not first.terminal:
        yield "no state is terminal; a resource must be able to end"
    if spec.steady and spec.steady not in spec.states.keys() - spec.terminal:
        yield f"its steady state {spec.steady} must be one of its states, and not a terminal one; {_known(spec.states)}"
    yield from _faults_of_edges(first)
    for layer in others:
        if not _NAME.fullmatch(layer.name) or layer.name in RESERVED:
            yield (
                f"layer {layer.name}: its name must match {_NAME.pattern}, and must not be one of the reserved names "
                f"{', '.join(sorted(RESERVED))}"
            )
        for fault in (*_faults_of_states(layer), *_faults_of_edges(layer)):
            yield f"layer {layer.name}: {fault}"
    yield from _faults_of_actions(spec)
    yield from measures.faults(spec.metrics)


def _faults_of_states(layer: KindLayer) -> Iterator[str]:
    for state in layer.states:
        if not _STATE.fullmatch(state):
            yield f"state {state!r} must match {_STATE.pattern}"
    yield from _faults_of_limits(layer)
    for state in sorted(layer.first):
        if state not in layer.states:
            yield f"its initial state {state} is not one of its states; {_known(layer.states)}"
        if state in layer.terminal:
            yield f"its initial state {state} is terminal"
    for state in sorted(layer.terminal):
        if state not in layer.states:
            yield f"its terminal state {state} is not one of its states; {_known(layer.states)}"
        elif layer.states[state].limit is not None:
            yield f"terminal state {state} must not have a limit; use why_none='it has ended' instead"


def _faults_of_limits(layer: KindLayer) -> Iterator[str]:
    for state, bound in layer.states.items():
        if (bound.limit is None) == (not bound.why_none):
            yield f"state {state} needs either limit or why_none (the reason for having no limit), and not both"
        elif bound.limit is not None and bound.limit <= timedelta(0):
            yield f"the limit of state {state} must be longer than 0; it is {bound.limit}"


def _faults_of_edges(layer: KindLayer) -> Iterator[str]:
    for edge in layer.edges or ():
        for state in (edge.source, edge.target):
            if state not in layer.states:
                yield f"edge {edge.source} -> {edge.target}: {state} is not one of its states; {_known(layer.states)}"
        if edge.source == edge.target:
            yield (
                f"edge {edge.source} -> {edge.target} does not change the state; use an Update instead of such an edge"
            )
        if edge.source in layer.terminal:
            yield f"edge {edge.source} -> {edge.target} leaves a terminal state"
    unreachable = layer.states.keys() - _reached(layer.first, layer.pairs)
    if unreachable:
        yield f"{', '.join(sorted(unreachable))}: not reachable by edges from {', '.join(sorted(layer.first))}"
    endless = layer.states.keys() - _reached(layer.terminal, {(target, source) for source, target in layer.pairs})
    if layer.terminal and endless:
        yield (
            f"{', '.join(sorted(endless))}: no path of edges leads to a terminal state, so a resource there "
            "could never be deleted"
        )


def _reached(begin: Collection[str], edges: Collection[tuple[str, str]]) -> set[str]:
    """Return the states in `begin`, and all states that edges reach from these states."""
    reached, front = set(begin), set(begin)
    while front:
        front = {target for source, target in edges if source in front} - reached
        reached |= front
    return reached


def _faults_of_actions(spec: KindSpec) -> Iterator[str]:
    if CREATE in spec.actions:
        yield "create must not be among the actions; put its parameters into the field `create`"
    for action in spec.actions:
        if not _NAME.fullmatch(action):
            yield f"action {action!r} must match {_NAME.pattern}"
        yield from (f"action {action}: {fault}" for fault in _faults_of_acceptance(spec, action))
    filled = _FILLED & set(spec.columns_of_create())
    if filled:
        yield f"create must not set {', '.join(sorted(filled))}: the database fills these columns"
    for action, asked in spec.requests.items():
        try:
            describe(asked.params)
        except TypeError as error:
            yield f"action {action}: {error}"


def _faults_of_acceptance(spec: KindSpec, action: str) -> Iterator[str]:
    for state in spec.actions[action].accepted_in or ():
        if state not in spec.states:
            yield f"it is accepted in {state!r}, which is not one of the kind's states; {_known(spec.states)}"
        elif state in spec.terminal:
            yield f"it is accepted in {state}, which is terminal: a resource that has ended accepts no action"
    if not spec.states_accepting(action):
        yield (
            "no state accepts it; name the states in accepted_in, or omit accepted_in to accept it in all states "
            "that are not terminal"
        )


def _known(states: Collection[str]) -> str:
    return f"expected one of {', '.join(states)}"
