"""The calls of docs/integrate/agents.md, by curl and in SQL, take a node from the enrolment of its agent to retired."""

from __future__ import annotations

import json
import os
import re

import anyio

from tests.integration.test_documentation import daemon, psql, until_status
from tests.support import pages, pg
from tests.support.door import door_on

BLOCKS = {
    block.marker: block.text
    for block in pages.blocks(pages.ROOT / "docs/integrate/agents.md")
    if block.is_run_elsewhere
}
ONBOARDED = """
    SELECT farrier.register_node('gpu-017');
    INSERT INTO farrier.intents (node, action, params, api_version)
    VALUES ('gpu-017', 'onboard', '{"mode": "manual"}', 2);
    SELECT farrier.issue_bootstrap('gpu-017');
"""
DRAINED = "INSERT INTO farrier.intents (node, action) VALUES ('gpu-017', 'drain')"
SHOWN_LEASE = re.compile(r"\b5ad7c1e2-[-0-9a-f]+")


class Shell:
    """One shell for the commands of the page, which keeps its variables."""

    def __init__(self) -> None:
        self._variables = {"PATH": os.environ["PATH"]}

    async def type(self, lines: str) -> str:
        """The output of the lines."""
        script = f'set -a\n{lines}\nprintf \'\\n%s %s\' "$AGENTS" "$KEY"'
        done = await anyio.run_process(["bash", "-euc", script], env=self._variables)
        said, _, kept = done.stdout.decode().rpartition("\n")
        self._variables |= dict(zip(("AGENTS", "KEY"), kept.split(), strict=True))
        return said


async def test_the_calls_in_sql_enrol_an_agent_and_finish_its_task(db: pg.Database) -> None:
    async with daemon(db.dsn), psql(db.dsn) as prompt:
        token = (await prompt.type(ONBOARDED)).splitlines()[-1]
        await db.until("SELECT status <> 'pending' FROM farrier.intents")
        await prompt.type("SET ROLE farrier_agent;")
        await prompt.type(BLOCKS["sql: enrol"].replace("fbt_…", token))
        await until_status(db, "active")
        await drained(db)
        await prompt.type(BLOCKS["sql: task"])
        await until_status(db, "retired")


async def test_a_shell_enrols_an_agent_and_finishes_its_task(db: pg.Database) -> None:
    shell = Shell()
    async with daemon(db.dsn), db.pool(2) as connections, door_on(connections) as door, psql(db.dsn) as prompt:
        token = (await prompt.type(ONBOARDED)).splitlines()[-1]
        enrol = BLOCKS["sh: enrol"].replace("https://agents.example:9466", door.url)
        await shell.type(enrol.replace("fbt_…", token))
        await shell.type(BLOCKS["sh: beat"])
        await until_status(db, "active")
        await drained(db)
        claimed = json.loads(await shell.type(BLOCKS["sh: claim"]))["task"]
        assert json.loads(BLOCKS["said: claim"])["task"].keys() <= claimed.keys()
        finish = SHOWN_LEASE.sub(claimed["lease_token"], BLOCKS["sh: finish"])
        await shell.type(finish.replace("/task/7/", f"/task/{claimed['id']}/"))
        await until_status(db, "retired")


async def drained(db: pg.Database) -> None:
    """Ask for a drain, and return when the agent has its task."""
    async with db.connect() as conn:
        await conn.execute(DRAINED)
    await until_status(db, "draining")
