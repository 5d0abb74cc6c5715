"""SQL does not repeat decisions of the model: it reads the tables that `farrier.io.schema.catalog` fills from the
model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import get_args, get_type_hints

import pytest

from farrier.config import NodeConfig
from farrier.io.schema.files import ObjectKind
from farrier.model.intents import preview, requests
from farrier.model.loop import restores
from farrier.model.machine import bmc, expected, health, identity, observation
from farrier.model.network import segment
from farrier.model.node import conditions, layers, limits, sla, snapshot, stages
from farrier.model.node.limits import Limits
from farrier.model.partition import partition, ufm
from farrier.model.views import census
from tests.architecture import sources
from tests.support import pg

# A string, in quotes or between dollars; but not a function's body between `$$`, which has strings of its own.
STRING = re.compile(r"'((?:[^']|'')*)'|\$(\w*)\$([^$']*)\$\2\$")
WORD_IN_STRING = re.compile(r"(?<![\w.-])[a-z_]+(?![\w.-])")
NUMBER = re.compile(r"(?<![\w$%'.])(\d+(?:\.\d+)?)(?![\w'.])|'(\d+)'")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
UNIT = r"(s(?:ec\w*)?|m(?:in\w*)?|h(?:our\w*)?|d(?:ays?)?)\b"
# Matches 5 minutes and '5' minute. ISO, CLOCK and MADE match PT5M, 00:05:00 and make_interval(mins => 5).
WITH_UNIT = re.compile(rf"(?<![\w.])(\d+)'? ?{UNIT}", re.IGNORECASE)
ISO = re.compile(r"'P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?'")
CLOCK = re.compile(r"'(?:(\d+) days? )?(\d+):(\d\d)(?::(\d\d))?'")
MADE = re.compile(r"make_interval\(([^()]*)\)")
PART = re.compile(rf"\b{UNIT} *(?:=>|:=) *(\d+)")
# An interval of one unit, multiplied by a number on either side.
TIMES = re.compile(rf"(\d+) *\* *(?:interval )?'1 ?{UNIT}'|'1 ?{UNIT}'(?:::interval)? *\* *(\d+)")

# A file may name one member of each of these sets: two would be a copy of the set.
SETS: Mapping[str, frozenset[str]] = {
    "layers.TERMINAL": layers.TERMINAL,
    "layers.FAILED": layers.FAILED,
    "layers.AT_WORK": layers.AT_WORK,
    "stages.OUTSIDE_MAAS": stages.OUTSIDE_MAAS,
    "layers.OnboardingMode but OUTSIDE_MAAS": frozenset(layers.OnboardingMode) - stages.OUTSIDE_MAAS,
    "node.LIVE_TASKS": snapshot.LIVE_TASKS,
    "expected.DRIFTING": expected.DRIFTING,
    "conditions.ENDS_WITH_A_WORKFLOW": conditions.ENDS_WITH_A_WORKFLOW,
    **{f"sla.STOPS of {stop.state} by {stop.fact}": frozenset(stop.values) for stop in sla.STOPS},
}
# Each value, with the word that marks the files in which the test searches for the value.
VALUES: Mapping[str, tuple[timedelta | float, str]] = {
    "bmc.LOGIN_CAP": (bmc.LOGIN_CAP, "bmc_logins"),
    "bmc.LOGIN_WINDOW": (bmc.LOGIN_WINDOW, "bmc_logins"),
    "health.SSH_SEED_LIMIT": (health.SSH_SEED_LIMIT, "ssh_seed"),
    "observation.CONFIRMED_AFTER": (observation.CONFIRMED_AFTER, "node_observations"),
    "census.FAILING_AFTER": (census.FAILING_AFTER, "outcomes"),
    "node.offline_after": (NodeConfig().offline_after, "last_heartbeat_at"),
    "node.brake_window": (NodeConfig().brake_window, "departures"),
    "node.brake_share": (NodeConfig().brake_share, "departures"),
    "node.brake_at_least": (NodeConfig().brake_at_least, "departures"),
}
# The states of a machine that do not contradict a node in service: a file that names such a state has a rule of its
# own.
DRIFT = "expected.IN_SERVICE"
# The facts of `sla.STOPS` about intents for a node, which are not states.
ASKED = "sla.Fact.MANAGE_ASKED or HAS_MODE"
LOOKS_WHAT_WAS_ASKED = re.compile(r"asked_at' IS\b|\bmode IS\b")

EXCEPT: Mapping[tuple[str, str], str] = {
    ("tables/08_tasks.sql", "node.LIVE_TASKS"): "constraints look at no table; see ENUMERATIONS",
    ("tasks/take_task.sql", "node.LIVE_TASKS"): "it makes a dispatched task of a queued one",
    ("nodes/still_clocks.sql", ASKED): "the one place",
    ("nodes/register_node.sql", "sla.STOPS of enrolling by management"): "in which of them a node begins",
    ("nodes/node_workflows.sql", "layers.AT_WORK"): "each of the two alone: one has stages, the other undoes",
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
    "ended_with_status": set(snapshot.LIVE_TASKS),
    "ib_members_membership_check": set(ufm.Membership),
    "ib_members_state_check": set(partition.MemberState),
    "ib_partitions_rate_limit_check": set(ufm.RateLimit),
    "intents_status_check": set(requests.IntentStatus),
    "limits_scope_check": {rule.scope for rule in limits.rules(EVERY_SCOPE)},
    "monitors_effect_check": set(conditions.Effect),
    "node_conditions_effect_check": set(conditions.Effect),
    "node_conditions_requested_check": set(conditions.Effect),
    "node_identities_kind_check": set(get_args(get_type_hints(identity.Holder)["kind"])),
    "node_tasks_status_check": set(snapshot.TaskStatus),
    "node_uses_kind_check": {segment.KIND, partition.KIND},
    "nodes_live_workflow_kind_check": set(layers.WorkflowKind),
    "questions_verdict_check": set(preview.PreviewVerdict),
    "resource_intents_status_check": set(requests.IntentStatus),
    "restore_holds_choice_check": set(restores.HoldChoice),
    "schema_objects_kind_check": set(ObjectKind),
}


def _spelled(lasts: timedelta) -> str:
    return f"make_interval(secs => {lasts.total_seconds():.0f})"


def test_no_sql_repeats_a_decision_of_the_model() -> None:
    texts = {"/".join(path.parts[-2:]): sources.uncommented_sql(path) for path in sources.sql_files()}
    assert {(place, name) for place, text in texts.items() for name in copied(text)} == EXCEPT.keys()


@pytest.mark.parametrize(
    "spelled",
    [
        "IN ('active', 'offline')",
        "= ANY ('{active,offline}')",
        """= ANY ('{"active", "offline"}')""",
        """<@ '["active", "offline"]'""",
        "= ANY (string_to_array('active offline', ' '))",
        "~ '^(active|offline)$'",
        "IN ($a$active$a$, $a$offline$a$)",
        "IN ($$active$$, $$offline$$)",
    ],
)
def test_a_set_is_found_in_every_notation(spelled: str) -> None:
    assert "expected.DRIFTING" in copied(f"SELECT n.id FROM farrier.nodes n WHERE n.status {spelled}")


@pytest.mark.parametrize(
    "spelled",
    [
        "interval '5 minutes'",
        "'5m'::interval",
        "interval '5' minute",
        "'300 s'::interval",
        "interval '00:05:00'",
        "interval '0:05'",
        "interval 'PT5M'",
        "make_interval(mins => 5)",
        "make_interval(secs := 300)",
        "make_interval(hours => 0, mins => 4, secs => 60)",
        "make_interval(secs => 300::double precision)",
        "5 * interval '1 minute'",
        "5 * '1 min'::interval",
        "interval '1 minute' * 5",
        "'1 min'::interval * 5",
        "to_timestamp(extract(epoch FROM l.at) + 300)",
        "'300'::numeric",
    ],
)
def test_a_duration_is_found_in_every_notation(spelled: str) -> None:
    assert timedelta(minutes=5) == bmc.LOGIN_WINDOW, "the cases above spell five minutes"
    assert "bmc.LOGIN_WINDOW" in copied(f"SELECT l.at FROM farrier.bmc_logins l WHERE l.at > now() - {spelled}")


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("expected.IN_SERVICE", "SELECT o.node_id FROM farrier.node_observations o WHERE o.state <> 'deployed'"),
        (
            "conditions.ENDS_WITH_A_WORKFLOW",
            "FROM farrier.node_conditions WHERE source IN ('region', 'workflow')",
        ),
        ("node.offline_after", f"a.last_heartbeat_at < now() - {_spelled(NodeConfig().offline_after)}"),
        ("node.brake_window", f"DELETE FROM farrier.departures d WHERE d.at < {_spelled(NodeConfig().brake_window)}"),
        ("node.brake_share", f"SELECT count(*) > {NodeConfig().brake_share} * 7 FROM farrier.departures"),
        ("node.brake_at_least", f"SELECT count(*) >= {NodeConfig().brake_at_least} FROM farrier.departures"),
        ("bmc.LOGIN_CAP", f"SELECT count(*) > {bmc.LOGIN_CAP} FROM farrier.bmc_logins"),
    ],
)
def test_a_planted_copy_of_a_decision_is_found(name: str, planted: str) -> None:
    assert name in copied(planted)


def copied(text: str) -> Iterator[str]:
    """The names of the decisions of the model that an SQL text repeats."""
    words, values = set(words_in(text)), {*durations_in(text), *numbers_in(text)}
    yield from (name for name, members in SETS.items() if len(words & members) > 1)
    if words & expected.IN_SERVICE:
        yield DRIFT
    if LOOKS_WHAT_WAS_ASKED.search(text):
        yield ASKED
    for name, (value, subject) in VALUES.items():
        spelled = {value, value.total_seconds()} if isinstance(value, timedelta) else {value}
        if subject in text and spelled & values:
            yield name


def words_in(text: str) -> Iterator[str]:
    """The words of the text's strings."""
    for quoted, _, between_dollars in STRING.findall(text):
        yield from WORD_IN_STRING.findall(quoted or between_dollars)


def numbers_in(text: str) -> Iterator[float]:
    """The text's numbers, also those in quotes."""
    yield from (float(bare or quoted) for bare, quoted in NUMBER.findall(text))


def durations_in(text: str) -> Iterator[timedelta]:
    """The text's durations."""
    yield from (lasting(unit, number) for number, unit in WITH_UNIT.findall(text))
    yield from (lasting(left or right, many or times) for many, left, right, times in TIMES.findall(text))
    for parts in (*ISO.findall(text), *CLOCK.findall(text)):
        yield sum((lasting(unit, number or 0) for unit, number in zip("dhms", parts, strict=True)), timedelta(0))
    for made in MADE.findall(text):
        yield sum((lasting(unit, number) for unit, number in PART.findall(made)), timedelta(0))


def lasting(unit: str, number: str | int) -> timedelta:
    return timedelta(**{UNITS[unit[0].lower()]: int(number)})


async def test_a_list_of_words_in_a_constraint_is_an_enumeration_of_the_model(db: pg.Database) -> None:
    """A constraint cannot read a table, so it has to repeat the model."""
    async with db.connect() as conn:
        rows = await conn.fetch(LISTS)
    assert {row["name"]: set(WORD.findall(row["definition"])) for row in rows} == ENUMERATIONS
