"""The model as diagrams and tables, generated from its data, as the documentation contains them. A check fails when the
documentation differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from farrier.model.advice import recommended
from farrier.model.advice.recommended import Advice
from farrier.model.intents import actions
from farrier.model.kinds import diagram
from farrier.model.machine import expected
from farrier.model.markdown import table
from farrier.model.node import conditions, edges, failures, layers, meanings, sla, stages
from farrier.model.node import spec as node_spec
from farrier.model.node.layers import DecommissionMode, Layer, Mode, OnboardingMode

# Both workflows have the same edges, so one section shows them.
_SECTIONS = {
    Layer.STATUS: "Status",
    Layer.MANAGEMENT: "Management",
    Layer.ONBOARDING: "Workflow, onboarding and decommission alike",
}
_LAYERS = {layer.name: layer for layer in node_spec.SPEC.every_layer}


def mermaid(layer: Layer) -> str:
    """Return a state diagram of one layer. The label of each edge names the edge's owner; the tables show the trigger
    of the edge."""
    return diagram.picture(_LAYERS[layer], label=lambda edge: edge.owner)


def markdown() -> str:
    """Return every table of the model, and a diagram for each layer."""
    sections = [
        *(_layer_section(layer, title) for layer, title in _SECTIONS.items()),
        "## Onboarding stages\n\n" + _stage_table(stages.OnboardingStage, tuple(OnboardingMode)),
        "## Decommission stages\n\n" + _stage_table(stages.DecommissionStage, tuple(DecommissionMode)),
        "## Decommission order by region\n\n" + _order_table(),
        "## Node status by workflow\n\n" + _mapping_table(),
        "## Expected in MAAS\n\n" + _expected_table(),
        "## Limits\n\n" + _sla_table(),
        "## Limits of stages\n\n" + _stage_limit_table(),
        "## Intents\n\n" + _action_table(),
        "## Failure classes\n\n" + _failure_table(),
        "## Conditions by status\n\n" + _condition_table(),
        "## Default effects\n\n" + _default_effects(),
        "## Conditions\n\n" + _advice_table("condition", meanings.CONDITION_MEANINGS, failures.CONDITION_ADVICE),
        "## BMC failures\n\n" + _advice_table("class", meanings.BMC_MEANINGS, failures.BMC_ADVICE),
    ]
    return "\n".join(sections)


def _layer_section(layer: Layer, title: str) -> str:
    rows = [(edge.source, edge.target, edge.owner, edge.trigger) for edge in edges.EDGES[layer]]
    picture = f"```mermaid\n{mermaid(layer)}```\n"
    return f"## {title}\n\n{picture}\n{table(('from', 'to', 'changed by', 'when'), rows)}"


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
            diagram.limit(default.limit),
            default.note,
        )
        for layer, states in sla.DEFAULTS.items()
        for state, default in states.items()
    ]
    ends = [(str(layer), "end to end", diagram.limit(limit), "") for layer, limit in sla.END_TO_END.items()]
    return table(("layer", "state", "limit", "note"), [*rows, *ends])


def _stage_limit_table() -> str:
    rows = [
        (str(layer), str(stage), diagram.limit(limit))
        for layer, limits in sla.STAGES.items()
        for stage, limit in limits.items()
    ]
    note = f"An attempt that lasts {sla.STAGE_DEADLINE_FACTOR} times the limit of its stage fails with class `timeout`."
    return f"{note}\n\n{table(('workflow', 'stage', 'limit'), rows)}"


def _action_table() -> str:
    rows = [
        (
            str(action),
            diagram.params(spec.params),
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
            meanings.FAILURE_MEANINGS[failures.FailureClass(name)],
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
