"""`farrier node set`: details of many nodes in one command, with labels merged node by node."""

from __future__ import annotations

import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt
from tests.support import pg

REGISTERED = """
    SELECT farrier.register_node(name, site => 'ams1', labels => labels) FROM (VALUES
        ('r7-1', '{"row": "a"}'::jsonb), ('r7-2', '{"row": "a", "spare": "yes"}'), ('r7-3', '{}')) v (name, labels)
"""
ASKED = """
    SELECT n.name, i.params::text FROM farrier.intents i JOIN farrier.nodes n ON n.id = i.node_id
     WHERE i.action = 'set' ORDER BY i.id
"""


@pytest.fixture
async def rack(farrier: Prompt, db: pg.Database) -> Prompt:
    """Runs commands, on a database with three nodes of which two have labels."""
    async with db.connect() as conn:
        await conn.execute(REGISTERED)
    return farrier


async def asked(db: pg.Database) -> list[tuple[str, str]]:
    async with db.connect() as conn:
        return [tuple(record) for record in await conn.fetch(ASKED)]


async def test_labels_are_merged_with_those_of_each_node(rack: Prompt, db: pg.Database) -> None:
    await rack("node", "set", "r7-*", "label=row=b", "label=spare-", "rack=r7", "--yes", "--no-wait")
    assert await asked(db) == [(name, '{"rack": "r7", "labels": {"row": "b"}}') for name in ("r7-1", "r7-2", "r7-3")]


async def test_a_node_that_already_has_the_values_is_not_changed(rack: Prompt, db: pg.Database) -> None:
    said = await rack("node", "set", "*", "label=row=a", "site=ams1", "--no-wait")
    assert "2 nodes already had these values" in said.err
    assert await asked(db) == [("r7-3", '{"labels": {"row": "a"}}')]


async def test_a_selection_may_replace_the_names(rack: Prompt, db: pg.Database) -> None:
    await rack("node", "set", "site=", "-l", "spare", "--no-wait")
    assert await asked(db) == [("r7-2", '{"unset": ["site"]}')]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["r7-1"], ExitCode.USAGE, "nothing to change; give for example site=ams1"),
        (["site=fra1"], ExitCode.USAGE, "name the nodes, or select them"),
        (["r7-1", "sit=fra1"], ExitCode.USAGE, "a node has no detail 'sit'; did you mean 'site'?"),
        (["r7-1", "labels=row=b"], ExitCode.USAGE, "did you mean 'label'?"),
        (["r7-1", "label=row"], ExitCode.USAGE, "expected label=KEY=VALUE"),
        (["r7-1", "agentless=perhaps"], ExitCode.USAGE, "agentless must be true or false"),
        (["r7-9", "site=fra1"], ExitCode.REFUSED, "no node is named 'r7-9'"),
        (["r7-*", "site=fra1"], ExitCode.USAGE, "set 3 nodes (3 enrolling; no controller answered)"),
    ],
)
async def test_a_mistake_changes_nothing(
    rack: Prompt, db: pg.Database, words: list[str], code: ExitCode, text: str
) -> None:
    refused = await rack("node", "set", *words, ends=code)
    assert text in " ".join(refused.err.replace("│", " ").split())
    assert await asked(db) == []
