"""The command line lists the monitors, and their reports that were not taken."""

from __future__ import annotations

from tests.integration.cli.conftest import Prompt
from tests.support import pg
from tests.support.monitors import grant, report


async def test_monitors_are_listed_with_their_rights_and_their_conditions(farrier: Prompt, db: pg.Database) -> None:
    assert "there are no monitors" in (await farrier("monitor", "list")).err
    await farrier("node", "add", "gpu-1")
    async with db.connect() as conn:
        await grant(conn, "dcgm", ids=["gpu/*", "dcgm/*"], effect="quarantine")
        await report(conn, {"node": "gpu-1", "id": "gpu/hot"}, {"node": "gpu-9", "id": "gpu/hot"}, monitor="dcgm")
    heading, line = (await farrier("monitor", "list")).out.splitlines()
    assert heading.split()[:3] == ["MONITOR", "LOGIN", "SITES"]
    assert "gpu/*, dcgm/*" in line and "quarantine" in line
    assert line.split()[-4:] == ["5h", "1", "0", "1"]


async def test_refusals_are_listed_by_monitor_with_their_reason(farrier: Prompt, db: pg.Database) -> None:
    assert "every report was taken" in (await farrier("monitor", "refusals")).err
    async with db.connect() as conn:
        for name in ("dcgm", "fabric"):
            await grant(conn, name)
            await report(conn, {"node": f"{name}-9", "id": "gpu/hot", "target": "GPU-1"}, monitor=name)
    assert len((await farrier("monitor", "refusals")).out.splitlines()) == 3
    (line,) = (await farrier("monitor", "refusals", "fabric")).out.splitlines()[1:]
    assert "gpu/hot/GPU-1" in line and line.endswith("no node is 'fabric-9'")
    (refusal,) = (await farrier("monitor", "refusals", "dcgm", "--json")).json
    assert (refusal["verdict"], refusal["times"]) == ("unmapped", 1)
