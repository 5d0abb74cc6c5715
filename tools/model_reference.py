"""The model as diagrams and tables, generated from its data, as the documentation contains them.

`generate_docs` calls this module. The same model always gives the same output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from farrier.model import duration
from farrier.model.advice import recommended
from farrier.model.advice.recommended import Advice
from farrier.model.intents import actions
from farrier.model.intents.params import Params, describe
from farrier.model.kinds.spec import KindEdge, KindLayer, KindSpec
from farrier.model.machine import expected
from farrier.model.node import conditions, edges, failures, layers, sla, stages
from farrier.model.node import spec as node_spec
from farrier.model.node.layers import DecommissionMode, Layer, Mode, OnboardingMode
from tools.failure_meanings import BMC_MEANINGS, CONDITION_MEANINGS, FAILURE_MEANINGS
from tools.markdown import table

# Both workflows have the same edges, so one section shows them.
_SECTIONS = {
    Layer.STATUS: "Status",
    Layer.MANAGEMENT: "Management",
    Layer.ONBOARDING: "Workflow, onboarding and decommission alike",
}
_LAYERS = {layer.name: layer for layer in node_spec.SPEC.every_layer}


def mermaid(layer: Layer) -> str:
    """Return a state diagram of one layer of a node. The label of each edge names the edge's owner; the tables show the
    trigger of the edge."""
    return picture(_LAYERS[layer], label=lambda edge: edge.owner)


def sections() -> Mapping[str, str]:
    """Return every table of the model of nodes, and a diagram for each layer, by title."""
    return {
        **{title: _layer_section(layer) for layer, title in _SECTIONS.items()},
        "Onboarding stages": _stage_table(stages.OnboardingStage, tuple(OnboardingMode)),
        "Decommission stages": _stage_table(stages.DecommissionStage, tuple(DecommissionMode)),
        "Decommission order by region": _order_table(),
        "Node status by workflow": _mapping_table(),
        "Expected in MAAS": _expected_table(),
        "Limits": _sla_table(),
        "Limits of stages": _stage_limit_table(),
        "Intents": _action_table(),
        "Failure classes": _failure_table(),
        "Conditions by status": _condition_table(),
        "Default effects": _default_effects(),
        "Conditions": _advice_table("condition", CONDITION_MEANINGS, failures.CONDITION_ADVICE),
        "BMC failures": _advice_table("class", BMC_MEANINGS, failures.BMC_ADVICE),
    }


def _layer_section(layer: Layer) -> str:
    rows = [(edge.source, edge.target, edge.owner, edge.trigger) for edge in edges.EDGES[layer]]
    return f"```mermaid\n{mermaid(layer)}```\n\n{table(('from', 'to', 'changed by', 'when'), rows)}"


def _stage_table(kind: type[stages.OnboardingStage | stages.DecommissionStage], modes: tuple[Mode, ...]) -> str:
    rows = [(str(stage), *(_mark(stage, mode) for mode in modes)) for stage in kind]
    return table(("stage", *map(str, modes)), rows)


def _order_table() -> str:
    """Return the order of stages if the region cleans the machine. Every mode that it applies to has the same order."""
    longest = max(stages.BY_REGION.values(), key=len)
    rows = [(str(stage), *("x" if stage in path else "" for path in stages.BY_REGION.values())) for stage in longest]
    return table(("stage", *map(str, stages.BY_REGION)), rows)


def _mark(stage: stages.Stage, mode: Mode) -> str:
    if stage in stages.BY_POLICY.get(mode, frozenset()):
        return "by policy"
    if stage in stages.DETOUR and mode is OnboardingMode.DEPLOY:
        return "on failure"
    return "x" if stage in stages.PATHS[mode] else ""


def _mapping_table() -> str:
    rows = [
        (f"{kind} {status}", ", ".join(n for n in layers.STATES[Layer.STATUS] if n in nodes))
        for (kind, status), nodes in edges.FITTING.items()
    ]
    alone = ("no live workflow", ", ".join(n for n in layers.STATES[Layer.STATUS] if n in edges.WITHOUT_WORKFLOW))
    return table(("workflow", "node status"), [*rows, alone])


def _expected_table() -> str:
    rows = [(str(status), fits.text, fits.note) for status, fits in expected.EXPECTED.items()]
    return table(("node status", "in MAAS", "note"), rows)


def _sla_table() -> str:
    rows = [
        (
            str(layer),
            str(state),
            _limit(default.limit),
            default.note,
        )
        for layer, states in sla.DEFAULTS.items()
        for state, default in states.items()
    ]
    ends = [(str(layer), "end to end", _limit(limit), "") for layer, limit in sla.END_TO_END.items()]
    return table(("layer", "state", "limit", "note"), [*rows, *ends])


def _stage_limit_table() -> str:
    rows = [
        (str(layer), str(stage), _limit(limit))
        for layer, limits in sla.STAGES.items()
        for stage, limit in limits.items()
    ]
    note = f"An attempt that lasts {sla.STAGE_DEADLINE_FACTOR} times the limit of its stage fails with class `timeout`."
    return f"{note}\n\n{table(('workflow', 'stage', 'limit'), rows)}"


def _action_table() -> str:
    rows = [
        (
            str(action),
            _params(spec.params),
            str(spec.since),
            _some(layers.STATES[Layer.STATUS], spec.accepted_in),
            _some(layers.STATES[Layer.MANAGEMENT], spec.managements),
            spec.condition.text + _regardless(spec),
            spec.destructive.text if spec.destructive is not None else "",
            spec.description,
        )
        for action, spec in actions.ACTIONS.items()
    ]
    return table(
        ("action", "parameters", "since", "status", "management", "accepted", "destructive", "what it does"), rows
    )


def _some(kind: type[StrEnum], members: frozenset[str]) -> str:
    """Return the members in order; "any" if all are members, or "any except X" if only X is missing."""
    without = [state for state in kind if state not in members]
    if len(without) <= 1:
        return f"any except {without[0]}" if without else "any"
    return ", ".join(state for state in kind if state in members)


def _regardless(spec: actions.ActionSpec) -> str:
    states = (*layers.STATES[Layer.STATUS], *layers.STATES[Layer.MANAGEMENT])
    names = " or ".join(state for state in states if state in spec.regardless_in | spec.stops)
    return f", and always in {names}" if names else ""


def _default_effects() -> str:
    rows = [(f"{each.rule.source}/{each.rule.id}", each.rule.effect, each.why) for each in conditions.DEFAULT_EFFECTS]
    return table(("condition", "default effect", "reason"), rows)


def _condition_table() -> str:
    rows = [(str(status), each.text) for status, each in conditions.BY_STATUS.items()]
    return table(("node status", "a condition with the effect `quarantine`"), rows)


def _failure_table() -> str:
    rows = [
        (
            str(name),
            FAILURE_MEANINGS[failures.FailureClass(name)],
            "yes" if spec.retryable else "no",
            "yes" if name in failures.UNSAFE else "no",
            spec.action,
        )
        for name, spec in failures.FAILURES.items()
    ]
    return table(("class", "meaning", "retried by itself", "unsafe", "recommended action"), rows)


def _advice_table(title: str, means: Mapping[Any, str], advice: Mapping[Any, Advice]) -> str:
    rows = [(str(name), means[name], recommended.text(each)) for name, each in advice.items()]
    return table((title, "meaning", "recommended action"), rows)


def of_kind(spec: KindSpec) -> str:
    """Return the diagram and limits of each layer of a kind, and its actions."""
    layers = [f"```mermaid\n{picture(layer)}```\n\n{_limits(layer)}\n" for layer in spec.every_layer]
    actions = [
        (
            name,
            _params(action.params),
            ", ".join(f"`{state}`" for state in spec.states_accepting(name)),
            action.description,
        )
        for name, action in spec.requests.items()
    ]
    return f"{''.join(layers)}{table(('action', 'parameters', 'accepted in', 'effect'), actions)}"


def picture(layer: KindLayer, *, label: Callable[[KindEdge], str] = lambda edge: edge.trigger) -> str:
    """Return a diagram of the states and edges of one layer, with a label for each edge."""
    names = [f"    {_id(state)} : {state}" for state in layer.states if _id(state) != state]
    begins = [f"    [*] --> {_id(state)}" for state in layer.states if state in layer.first]
    edges = [f"    {_id(edge.source)} --> {_id(edge.target)} : {_plain(label(edge))}" for edge in layer.edges or ()]
    ends = [f"    {_id(state)} --> [*]" for state in layer.states if state in layer.terminal]
    return "\n".join(("stateDiagram-v2", *names, *begins, *edges, *ends)) + "\n"


def _limits(layer: KindLayer) -> str:
    states = [(f"`{state}`", _limit(rule.limit), rule.why_none) for state, rule in layer.states.items()]
    return table((layer.name, "limit", "note"), states)


def _id(state: str) -> str:
    """Return the state as an ID of mermaid, because mermaid parses a slash as syntax."""
    return state.replace("/", "_")


def _plain(text: str) -> str:
    return text.replace("`", "")


def _limit(of: timedelta | None) -> str:
    return "none" if of is None else duration.human(of)


def _params(of: type[Params]) -> str:
    """Return the names of an action's parameters; a question mark follows an optional parameter."""
    fields = describe(of).fields
    return ", ".join(f"{name}{'' if field.required else '?'}" for name, field in fields.items())
