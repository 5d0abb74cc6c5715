"""The SQL calls of docs/integrate/agents.md take a node from the enrolment of its agent to retired."""

from __future__ import annotations

import re
from pathlib import Path

from tests.integration.test_documentation import daemon, psql, until, until_status
from tests.support import pg

PAGE = Path(__file__).parents[2] / "docs" / "integrate" / "agents.md"
BLOCKS = dict(re.findall(r"<!-- sql: (\w+) -->\n```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
ONBOARDED = """
    SELECT farrier.register_node('gpu-017');
    INSERT INTO farrier.intents (node, action, params, api_version)
    VALUES ('gpu-017', 'onboard', '{"mode": "manual"}', 2);
"""


async def test_six_calls_enrol_an_agent_and_finish_its_task(db: pg.Database) -> None:
    assert sum(text.count("\n-- ") + text.startswith("-- ") for text in BLOCKS.values()) == 6
    async with daemon(db.dsn), psql(db.dsn) as prompt:
        await prompt.type(ONBOARDED)
        await until(db, "SELECT status <> 'pending' FROM farrier.intents")
        await prompt.type(BLOCKS["agent"])
        await until_status(db, "active")
        await prompt.type(BLOCKS["drain"])
        await until_status(db, "draining")
        await prompt.type(BLOCKS["task"])
        await until_status(db, "retired")
