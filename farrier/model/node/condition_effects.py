"""Decides the effect of each condition, from the effect that its source requests. Pure.

The effect is never higher than the requested effect. Rules of the settings may lower it, and defaults lower it where a
source requests more than most sites want. Nothing lowers the conditions of operators and workflows.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from farrier.model.node.conditions import BMC_HEALTH, MONITOR, Condition, Effect, Source

FIXED = frozenset({Source.OPERATOR, Source.WORKFLOW})
"""Sources whose conditions always have the requested effect: an operator requested it, or the table of workflows and
statuses requires it."""

Pattern = Annotated[str, Meta(min_length=1, max_length=200)]


class ConditionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The highest effect of some conditions. Each pattern matches the whole text; * matches any characters."""

    source: Annotated[Pattern, Meta(description="The source, such as agent or monitor:dcgm.")]
    id: Annotated[Pattern, Meta(description="The ID, such as xid_63.")] = "*"
    site: Annotated[Pattern, Meta(description="The site of the node.")] = "*"
    model: Annotated[Pattern, Meta(description="The model of the node, as registered, or else as its BMC reports.")] = (
        "*"
    )
    effect: Annotated[Effect, Meta(description="note or quarantine.")]

    def __post_init__(self) -> None:
        fixed = [str(source) for source in sorted(FIXED) if fnmatchcase(source, self.source)]
        if fixed and self.effect is not Effect.QUARANTINE:
            raise ValueError(
                f"source = {self.source!r} matches {' and '.join(fixed)}, whose conditions no setting can lower; "
                "write a rule for each of the other sources"
            )
        if not self.source.startswith(MONITOR) and not any(fnmatchcase(source, self.source) for source in Source):
            raise ValueError(
                f"no source matches source = {self.source!r}; expected {', '.join(Source)} or {MONITOR}NAME"
            )

    def fits(self, condition: Condition, site: str | None, model: str | None) -> bool:
        """Return whether the rule applies to this condition of a node of this site and model."""
        return (
            fnmatchcase(condition.source, self.source)
            and fnmatchcase(condition.id, self.id)
            and fnmatchcase(site or "", self.site)
            and fnmatchcase(model or "", self.model)
        )


class Default(msgspec.Struct, frozen=True):
    """A default that is lower than the requested effect, and the reason."""

    rule: ConditionRule
    why: str


DEFAULTS: tuple[Default, ...] = (
    Default(
        ConditionRule(source=Source.BMC, id=BMC_HEALTH, effect=Effect.NOTE),
        "vendors report Critical also for parts that do not disturb the work, such as a fan of a redundant pair",
    ),
)
"""The defaults that are lower than the requested effects. Any other condition has the requested effect."""


def decided(
    conditions: tuple[Condition, ...], rules: Iterable[ConditionRule], site: str | None, model: str | None
) -> tuple[Condition, ...]:
    """Return the conditions of a node with their effects; the same object if nothing changes."""
    effects = tuple(_effect(each, rules, site, model) for each in conditions)
    if all(each.effect is effect for each, effect in zip(conditions, effects, strict=True)):
        return conditions
    return tuple(
        each if each.effect is effect else replace(each, effect=effect)
        for each, effect in zip(conditions, effects, strict=True)
    )


def _effect(condition: Condition, rules: Iterable[ConditionRule], site: str | None, model: str | None) -> Effect:
    """Return the effect: the requested effect, unless the condition was released, or the first rule that fits, or else
    a default, lowers it."""
    if condition.released or condition.requested is Effect.NOTE:
        return Effect.NOTE
    if condition.source in FIXED:
        return condition.requested
    every = (*rules, *(default.rule for default in DEFAULTS))
    return next((rule.effect for rule in every if rule.fits(condition, site, model)), condition.requested)
