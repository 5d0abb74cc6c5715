"""What is the model's to say, no SQL says again: it reads the tables that `farrier.io.catalog` fills from the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

from farrier.model import bmc, census, health, observation, sla, workflow
from tests.architecture import sources

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
    ("nodes/still_clocks.sql", ASKED): "the one place",
    ("queries/nodes.sql", ASKED): "the fact itself, for Python",
    ("nodes/register_node.sql", "sla.STOPS of enrolling by management"): "in which of them a node begins",
    ("queries/census.sql", "workflow.AT_WORK"): "the clock of `running` is its stage's; `compensating` may be a cancel",
}


def test_no_sql_repeats_what_the_model_says() -> None:
    copies = [
        f"{path.relative_to(sources.ROOT)} repeats {name}"
        for path in sources.sql_files()
        for name in copied(path)
        if ("/".join(path.parts[-2:]), name) not in EXCEPT
    ]
    assert not copies


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
