"""A kind as a picture and tables, generated from its `KindSpec`: what its page in the documentation shows.

Like `diagram`, which does the same for nodes. Output is deterministic: same spec, same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from farrier.model import duration
from farrier.model.kinds import KindSpec, KindState
from farrier.model.params import Params, describe


def mermaid(spec: KindSpec) -> str:
    """The states and edges of a kind, with what triggers them."""
    names = [f"    {_id(state)} : {state}" for state in spec.states if _id(state) != state]
    edges = [f"    {_id(edge.source)} --> {_id(edge.target)} : {_plain(edge.trigger)}" for edge in spec.edges]
    ends = [f"    {_id(state)} --> [*]" for state in spec.states if state in spec.terminal]
    return "\n".join(("stateDiagram-v2", *names, f"    [*] --> {_id(spec.initial)}", *edges, *ends)) + "\n"


def markdown(spec: KindSpec) -> str:
    """The picture, the limits by state, and what may be asked for."""
    states = [(f"`{state}`", _limit(rule), rule.why_none) for state, rule in spec.states.items()]
    actions = [(name, _params(action.params), action.description) for name, action in spec.requests.items()]
    return (
        f"```mermaid\n{mermaid(spec)}```\n\n"
        f"{_table(('state', 'limit', 'note'), states)}\n"
        f"{_table(('action', 'parameters', 'what it does'), actions)}"
    )


def _id(state: str) -> str:
    """Mermaid reads a slash as syntax."""
    return state.replace("/", "_")


def _plain(text: str) -> str:
    return text.replace("`", "")


def _limit(rule: KindState) -> str:
    return "none" if rule.limit is None else duration.human(rule.limit)


def _params(params: type[Params]) -> str:
    fields = describe(params).fields
    return ", ".join(f"{name}{'' if field.required else '?'}" for name, field in fields.items())


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ("---",) * len(head), *rows))
