"""The statements on the page about network segments are accepted, and return what the page says."""

from __future__ import annotations

import re

from tests.architecture import sources
from tests.support.segments import Lan

PAGE = (sources.ROOT / "docs" / "integrate" / "network-segment.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


async def test_the_statements_of_the_page_work(lan: Lan) -> None:
    create, addresses = BLOCKS
    assert await lan.conn.fetchval(create.strip().rstrip(";") + " RETURNING status") == "accepted"
    await lan.settle()
    for number in range(1, 4):  # the page has an allocation for a node
        await lan.conn.execute("SELECT farrier.register_node($1)", f"gpu-{number}")
    statements = [line.partition(";")[0] for line in addresses.splitlines()]
    answers = [str(await lan.conn.fetchval(statement)) for statement in statements]
    assert answers == ["10.20.0.2", "2001:db8:20::1", "10.20.0.77", "10.20.0.3", "True", "10.20.0.2"]
    assert [row["owner"] for row in await lan.conn.fetch(statements[-1])] == ["vm-17", "gpu-3/eth1", "vm-17"]
