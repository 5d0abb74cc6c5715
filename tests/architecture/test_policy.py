"""What is the model's to say, no SQL says again: it reads the tables that `farrier.io.catalog` fills from the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import get_args, get_type_hints

from farrier.io.schema_files import ObjectKind
from farrier.model import (
    bmc,
    census,
    health,
    ib_partition,
    identity,
    limits,
    network_segment,
    node,
    observation,
    sla,
    stages,
    ufm,
    workflow,
    writes,
)
from farrier.model.limits import Limits
from tests.architecture import sources
from tests.support import pg

# A word on its own, and the words of an array.
LITERAL = re.compile(r"'(?:\{([a-z_, ]+)\}|([a-z_]+))'")
DURATION = re.compile(r"'(\d+) ?([a-z]+)'")
NUMBER = re.compile(r"(?<![\w$%'.])\d+(?![\w'.])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

# Of each of these a file may name one: two are a copy of the set.
SETS: Mapping[str, frozenset[str]] = {
    "workflow.TERMINAL": workflow.TERMINAL,
    "workflow.FAILED": workflow.FAILED,
    "workflow.AT_WORK": workflow.AT_WORK,
    "stages.OUTSIDE_MAAS": stages.OUTSIDE_MAAS,
    "workflow.OnboardingMode but OUTSIDE_MAAS": frozenset(workflow.OnboardingMode) - stages.OUTSIDE_MAAS,
    "node.LIVE_TASKS": node.LIVE_TASKS,
    **{f"sla.STOPS of {stop.state} by {stop.fact}": frozenset(stop.values) for stop in sla.STOPS},
}
# Each is sought in the files that mention its subject.
VALUES: Mapping[str, tuple[timedelta | int, str]] = {
    "bmc.LOGIN_CAP": (bmc.LOGIN_CAP, "bmc_logins"),
    "bmc.LOGIN_WINDOW": (bmc.LOGIN_WINDOW, "bmc_logins"),
    "health.SSH_SEED_LIMIT": (health.SSH_SEED_LIMIT, "ssh_seed"),
    "observation.CONFIRMED_AFTER": (observation.CONFIRMED_AFTER, "node_observations"),
    "census.FAILING_AFTER": (census.FAILING_AFTER, "outcomes"),
}
# What was asked for of a node: the facts of `sla.STOPS` that are no state.
ASKED = "sla.Fact.MANAGE_ASKED or HAS_MODE"
LOOKS_WHAT_WAS_ASKED = re.compile(r"asked_at' IS\b|\bmode IS\b")

EXCEPT: Mapping[tuple[str, str], str] = {
    ("tables/08_tasks.sql", "node.LIVE_TASKS"): "constraints look at no table; see ENUMERATIONS",
    ("tasks/take_task.sql", "node.LIVE_TASKS"): "it makes a dispatched task of a queued one",
    ("nodes/still_clocks.sql", ASKED): "the one place",
    ("queries/nodes.sql", ASKED): "the fact itself, for Python",
    ("nodes/register_node.sql", "sla.STOPS of enrolling by management"): "in which of them a node begins",
    ("queries/census.sql", "workflow.AT_WORK"): "the clock of `running` is its stage's; `compensating` may be a cancel",
}

LISTS = """
    SELECT o.conname AS name, pg_get_constraintdef(o.oid) AS definition
      FROM pg_constraint o
     WHERE o.connamespace = 'farrier'::regnamespace AND o.contype = 'c'
       AND pg_get_constraintdef(o.oid) LIKE '%ARRAY[''%'
"""
WORD = re.compile(r"'([^']*)'")
_LATER = {"status.offline": timedelta(hours=1)}
EVERY_SCOPE = Limits(everywhere=_LATER, models={"h100": _LATER}, sites={"north": _LATER})
ENUMERATIONS: Mapping[str, set[str]] = {
    "ended_with_status": set(node.LIVE_TASKS),
    "ib_members_membership_check": set(ufm.Membership),
    "ib_members_state_check": set(ib_partition.MemberState),
    "ib_partitions_rate_limit_check": set(ufm.RateLimit),
    "intents_status_check": {"pending", *writes.Verdict},
    "limits_scope_check": {rule.scope for rule in limits.rules(EVERY_SCOPE)},
    "node_identities_kind_check": set(get_args(get_type_hints(identity.Holder)["kind"])),
    "node_tasks_status_check": set(node.TaskStatus),
    "node_uses_kind_check": {network_segment.KIND, ib_partition.KIND},
    "nodes_live_workflow_kind_check": set(workflow.WorkflowKind),
    "resource_intents_status_check": {"pending", *writes.Verdict},
    "schema_objects_kind_check": set(ObjectKind),
}


def test_no_sql_repeats_what_the_model_says() -> None:
    copies = {("/".join(path.parts[-2:]), name) for path in sources.sql_files() for name in copied(path)}
    assert copies == EXCEPT.keys()


def copied(path: Path) -> Iterator[str]:
    """What of the model a file says again."""
    text = sources.uncommented_sql(path)
    words, values = set(words_in(text)), {*durations_in(text), *map(int, NUMBER.findall(text))}
    yield from (name for name, members in SETS.items() if len(words & members) > 1)
    if LOOKS_WHAT_WAS_ASKED.search(text):
        yield ASKED
    yield from (name for name, (value, subject) in VALUES.items() if subject in text and value in values)


def words_in(text: str) -> Iterator[str]:
    """Its literals that are words."""
    for array, alone in LITERAL.findall(text):
        yield from re.split(r", *", array) if array else [alone]


def durations_in(text: str) -> Iterator[timedelta]:
    """Its literals that are lengths of time."""
    for number, unit in DURATION.findall(text):
        if unit[0] in UNITS:
            yield timedelta(**{UNITS[unit[0]]: int(number)})


async def test_a_list_of_words_in_a_constraint_is_an_enumeration_of_the_model(db: pg.Database) -> None:
    """A constraint cannot look at a table, so it says again what the model says."""
    async with db.connect() as conn:
        rows = await conn.fetch(LISTS)
    assert {row["name"]: set(WORD.findall(row["definition"])) for row in rows} == ENUMERATIONS
