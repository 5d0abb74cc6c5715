"""Parameters with which to ask whether a resource accepts an action, before an operator has chosen them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from farrier.model.intents.params import ParamsRules

Trial: TypeAlias = Mapping[str, Any]

ANY_VALUE = {"reason": "a reason"}
"""Values for the parameters that only the operator knows, if the answer does not depend on the value."""


def plain(schema: ParamsRules) -> tuple[Trial, ...]:
    """Return the required parameters, once with each choice. Empty if the answer depends on a value that only the
    operator knows."""
    if schema.any_of:
        return ()
    found: list[Trial] = [{}]
    for name, field in schema.fields.items():
        if field.required:
            values = field.enum or ((ANY_VALUE[name],) if name in ANY_VALUE else ())
            found = [{**each, name: value} for each in found for value in values]
    return tuple(found)


def is_free(schema: ParamsRules) -> bool:
    """Return whether another value of an optional parameter could change the answer to each trial."""
    return any(
        not field.required and field.type != "boolean" and name not in ANY_VALUE
        for name, field in schema.fields.items()
    )


def flagged(schema: ParamsRules) -> tuple[Trial, ...]:
    """Return the parameters of `plain` with each flag, and with all flags."""
    flags = [name for name, field in schema.fields.items() if field.type == "boolean"]
    sets = [(flag,) for flag in flags] + ([tuple(flags)] if len(flags) > 1 else [])
    return tuple({**each, **_set(schema, chosen)} for each in plain(schema) for chosen in sets)


def _set(schema: ParamsRules, flags: tuple[str, ...]) -> Trial:
    needed = {schema.needs[flag] for flag in flags if flag in schema.needs}
    return dict.fromkeys(flags, True) | {name: ANY_VALUE[name] for name in needed if name in ANY_VALUE}
