"""Every list takes -o, --sort-by and --watch, in the same form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import typer

from farrier.cli import COMMANDS, load
from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt, force
from tests.integration.cli.test_node import OFFLINE
from tests.support import pg, segments

TASKS = """
    INSERT INTO farrier.node_tasks (node_id, workflow_id, type, status)
    SELECT n.id, 1, t.type, 'queued' FROM farrier.nodes n, (VALUES ('node.drain'), ('node.uninstall')) t (type)
     WHERE n.name = 'gpu-1' ORDER BY t.type
"""
FORMED = {"--output", "--json", "--sort-by", "--watch"}
# In an order of their own; read from a file or from the settings.
WITHOUT = {
    "history list": {"--sort-by", "--watch"},
    "sla list": {"--watch"},
    "token list": {"--watch"},
    "context list": FORMED - {"--json"},
}


def test_every_list_takes_the_same_options() -> None:
    lists = 0
    for name in COMMANDS:
        group = typer.main.get_command(load(name))
        for verb, command in getattr(group, "commands", {}).items():
            if verb in ("list", "breaches", "addresses", "members"):
                lists += 1
                options = {option for parameter in command.params for option in parameter.opts}
                assert FORMED & options == FORMED - WITHOUT.get(f"{name} {verb}", set()), (name, verb)
    assert lists > len(WITHOUT) + 9


@pytest.fixture
async def fleet(farrier: Prompt, db: pg.Database) -> AsyncIterator[Prompt]:
    """Runs commands, on a database with two or more rows of each list."""
    async with segments.opened(db) as lan:
        for name in ("gpu-1", "gpu-2"):
            await farrier("node", "add", name)
            await farrier("intent", "submit", name, "pause", "reason=new fans")
        await force(db, TASKS)
        await lan.pool.execute("SELECT farrier.set_pool('pkey', 5, 6)")
        await lan.ready()
        await farrier("partition", "add", "tenant")
        for name, port in (("gpu-1", "0002c903000e0b72"), ("gpu-2", "0002c903000e0b73")):
            await lan.take(name)
            await lan.pool.execute("SELECT farrier.join_partition('tenant', $1, $2)", port, name)
        for name in ("gpu-1", "gpu-2"):
            await force(db, OFFLINE, name)
            await db.advance(timedelta(minutes=31))
        yield farrier


LISTS = {
    "intent list": "id",
    "task list": "id",
    "kind list": "kind",
    "controllers": "kind",
    "sla breaches": "name",
    "sla list": "key",
    "segment addresses lan": "address",
    "partition members tenant": "guid",
}
"""Lists without arguments that select, and a field that is different in each of their rows."""
NAMES = {"controllers": ["test", "none"], "sla breaches": ["gpu-1", "gpu-2", "ib_partition/tenant"]}
"""The names where they are not the values of the field."""


async def test_every_list_is_printed_as_names_json_or_the_matches_of_a_path_and_sorted(fleet: Prompt) -> None:
    for words, field in LISTS.items():
        path = f"jsonpath=$[*].{field}"
        listed = [str(row[field]) for row in (await fleet(*words.split(), "-o", "json")).json]
        assert len(listed) > 1, words
        assert (await fleet(*words.split(), "-o", path)).out.split() == listed, words
        names = NAMES.get(words, listed)
        assert (await fleet(*words.split(), "-o", "name")).out.split() == names, words
        first, last = [
            (await fleet(*words.split(), "-o", path, "--sort-by", by)).out.split() for by in (field, f"-{field}")
        ]
        assert first == last[::-1] and set(first) == set(listed), words
        refused = await fleet(*words.split(), "--sort-by", "nothing", ends=ExitCode.USAGE)
        assert "no field is named 'nothing'" in refused.err, words


async def test_history_is_printed_as_names_or_the_matches_of_a_path_in_its_own_order(fleet: Prompt) -> None:
    for words in (("history", "list", "--to", "enrolling"), ("resource", "history", "network_segment", "lan")):
        entries = (await fleet(*words, "--json")).json
        assert (await fleet(*words, "-o", "jsonpath=$[*].key")).out.split() == [entry["key"] for entry in entries]
        names = dict.fromkeys(entry["name"] for entry in entries)
        assert (await fleet(*words, "-o", "name")).out.split() == list(names)
        assert entries[0]["key"] in (await fleet(*words, "-o", "wide")).out


async def test_the_parameters_of_intents_are_in_the_wide_table(fleet: Prompt) -> None:
    assert "reason=new fans" in (await fleet("intent", "list", "-o", "wide")).out
    assert "reason=new fans" not in (await fleet("intent", "list")).out
