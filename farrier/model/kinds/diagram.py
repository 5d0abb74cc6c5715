"""Generates the diagram and the tables of a kind from its `KindSpec`, for the kind's page in the documentation.

Module `diagram` does the same for nodes. The same spec always gives the same output.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from farrier.model import duration
from farrier.model.intents.params import Params, describe
from farrier.model.kinds.spec import KindEdge, KindLayer, KindSpec
from farrier.model.markdown import table


def markdown(spec: KindSpec) -> str:
    """Return the diagram and limits of each layer, and the actions of the kind."""
    layers = [f"```mermaid\n{picture(layer)}```\n\n{_limits(layer)}\n" for layer in spec.every_layer]
    actions = [
        (
            name,
            params(action.params),
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
    states = [(f"`{state}`", limit(rule.limit), rule.why_none) for state, rule in layer.states.items()]
    return table((layer.name, "limit", "note"), states)


def _id(state: str) -> str:
    """Return the state as an ID of mermaid, because mermaid parses a slash as syntax."""
    return state.replace("/", "_")


def _plain(text: str) -> str:
    return text.replace("`", "")


def limit(of: timedelta | None) -> str:
    """Return a limit as tables show it."""
    return "none" if of is None else duration.human(of)


def params(of: type[Params]) -> str:
    """Return the names of an action's parameters; a question mark follows an optional parameter."""
    fields = describe(of).fields
    return ", ".join(f"{name}{'' if field.required else '?'}" for name, field in fields.items())
