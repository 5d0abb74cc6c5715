"""`farrier db restored`, `moved`, `holds` and `lift`, and how other commands show held resources."""

from __future__ import annotations

import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt
from tests.support import pg
from tests.support.site import MINUTE, opened

LIFT = ("--reason", "compared")


async def test_an_operator_tells_of_a_restore_and_lifts_what_does_not_differ(farrier: Prompt, db: pg.Database) -> None:
    async with opened(db) as site:
        await site.active()
        await site.draining()
    assert "2 resources held" in (await farrier("db", "restored", "--yes")).out
    for name in ("gpu-1", "gpu-2"):
        assert "not compared" in (await farrier("node", "why", name)).out
    async with opened(db) as site:
        await site.settled()
        held = (await farrier("db", "holds", "--json")).json
        assert {each["name"]: each["difference"] for each in held} == {
            "gpu-1": None,
            "gpu-2": "held after a restore: decommission 1 was live in the backup (running, stage drain_node)",
        }
        lifted = await farrier("db", "lift", "--all", *LIFT, ends=ExitCode.REFUSED)
        assert "node gpu-2: held after a restore: decommission 1 was live in the backup" in lifted.out
        assert lifted.out.splitlines()[-1] == "1 hold lifted"

        shown = await farrier("node", "why", "gpu-2")
        assert "farrier changes nothing until an operator lifts the hold" in shown.out
        assert "farrier db lift" in shown.out
        listed = {each["name"]: each for each in (await farrier("node", "list", "--json")).json}
        assert (listed["gpu-1"]["schedulable"], listed["gpu-1"]["restored_at"]) == (True, None)
        assert listed["gpu-2"]["restored_at"] is not None
        assert "held after a restore" in (await farrier("node", "list", "gpu-2")).out

        await farrier("db", "lift", "gpu-2", "--then", "end", *LIFT)
        await site.wait(MINUTE)
        assert "no resource is held" in (await farrier("db", "holds")).err
        assert (await farrier("node", "show", "gpu-2", "--json")).json["status"] == "active"


async def test_a_held_node_is_not_schedulable(farrier: Prompt, db: pg.Database) -> None:
    async with opened(db) as site:
        await site.active()
    assert (await farrier("node", "show", "gpu-1", "--json")).json["schedulable"]
    await farrier("db", "restored", "--yes")
    assert not (await farrier("node", "show", "gpu-1", "--json")).json["schedulable"]


async def test_after_a_move_farrier_continues_without_a_lift(farrier: Prompt, db: pg.Database) -> None:
    await farrier("node", "add", "gpu-1")
    await farrier("db", "restored", "--yes")
    assert "1 hold lifted" in (await farrier("db", "moved", "--yes")).out
    async with db.connect() as conn:
        await conn.execute("UPDATE farrier.installation SET system_identifier = 1")
        await farrier("db", "moved", "--yes")
        assert not await conn.fetchval("SELECT farrier.is_restored()")


@pytest.mark.parametrize(
    ("given", "ends", "complaint"),
    [
        ((), ExitCode.USAGE, "names of held resources, or --all, or --site"),
        (("gpu-1", "--all"), ExitCode.USAGE, "names of held resources, or --all, or --site"),
        (("--all", "--then", "end"), ExitCode.USAGE, "a choice is made for each resource, not for all"),
        (("gpu-9",), ExitCode.REFUSED, "'gpu-9' is not held"),
        (
            ("lan", "--kind", "network_segment", "--then", "adopt"),
            ExitCode.USAGE,
            "for network_segment, expected resume",
        ),
    ],
    ids=["nothing", "both", "a choice for all", "unknown", "a choice of nodes"],
)
async def test_a_lift_names_what_is_wrong(
    farrier: Prompt, given: tuple[str, ...], ends: ExitCode, complaint: str
) -> None:
    refused = await farrier("db", "lift", *given, *LIFT, ends=ends)
    assert complaint in " ".join(refused.err.replace("│", " ").split())
