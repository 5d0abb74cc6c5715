"""Prints the changes that `farrier db migrate` made or, with `--plan`, would make.

A plan has a row for each step and each object; its last line is the verdict. A report has a line for each type of
change. If there are many objects of a type, they are counted instead of listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import typer

from farrier.cli.output import printing
from farrier.io.schema.migrate import Migrated
from farrier.io.schema.plan import MigrationPlan

_NOTHING = "no migration is needed"
# The number of objects of a type that fit on a screen, and the number that fit on a line.
_MOST_ROWS = 40
_MOST_NAMES = 5
_COUNTED = {
    "function": "{} functions",
    "view": "{} views",
    "trigger": "{} triggers",
    "rights": "the rights of {} roles",
}


def show_plan(plan: MigrationPlan, *, as_json: bool) -> None:
    if as_json:
        steps = [{"version": s.version, "name": s.name, "replicas_go_on": s.replicas_go_on} for s in plan.steps]
        printing.json({**msgspec.structs.asdict(plan), "steps": steps, "replicas_go_on": not plan.stops})
        return
    tables = [("make", "tables", "", "")] if plan.release is None else []
    applied = [("apply", f"version {step.version}", step.name, "") for step in plan.steps]
    printing.table(("", "what", "name", ""), [*tables, *applied, *_rows(plan.would)])
    for obstacle in (*plan.namesakes, *plan.in_the_way):
        typer.echo(f"blocked by: {obstacle}")
    typer.echo(_verdict(plan))


def show_done(done: Migrated, *, as_json: bool) -> None:
    if as_json:
        printing.json(done)
    elif not done:
        typer.echo(_NOTHING)
    else:
        names = (*_by_verb(done, ("made", "replaced", "dropped")), ("edited by hand before", done.edited))
        version = f"version {done.versions[-1]}" if done.versions else None
        printing.facts([("migrated to", version), *((verb, _listed(of_verb)) for verb, of_verb in names)])


def _verdict(plan: MigrationPlan) -> str:
    if not plan.would:
        return _NOTHING
    if plan.release is None:
        return "a new database without replicas"
    if plan.stops:
        return f"stop replicas of farrier {plan.release} first: {'; '.join(plan.stops)}"
    return f"replicas of farrier {plan.release} can continue during the migration"


def _by_verb(done: Migrated, verbs: tuple[str, str, str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Return the lines about created, replaced and dropped objects."""
    return zip(verbs, (done.made, [name for name in done.changed if name not in done.made], done.dropped), strict=True)


def _by_kind(names: Sequence[str]) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(name.partition(" ")[0], []).append(name)
    return kinds


def _rows(would: Migrated) -> Iterator[tuple[str, str, str, str]]:
    for verb, names in _by_verb(would, ("make", "replace", "drop")):
        for kind, of_kind in _by_kind(names).items():
            edited = [name for name in of_kind if name in would.edited]
            others = [name for name in of_kind if name not in would.edited]
            if len(others) > _MOST_ROWS:
                yield verb, _COUNTED[kind].format(len(others)), "", ""
                others = []
            yield from ((verb, kind, name.partition(" ")[2], "") for name in others)
            yield from ((verb, kind, name.partition(" ")[2], "edited by hand") for name in edited)


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return ", ".join(
        of_kind[0] if len(of_kind) == 1 else _COUNTED[kind].format(len(of_kind))
        for kind, of_kind in _by_kind(names).items()
    )
