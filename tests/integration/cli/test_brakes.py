"""The command line shows the nodes that a brake holds: in the list, among the failing nodes, alone, and by brake."""

from __future__ import annotations

from tests.integration.cli.conftest import Prompt
from tests.integration.node.test_brake_shown import silent, site
from tests.support.site import Machine, Site

__all__ = ["silent", "site"]


async def test_a_held_node_is_noted_in_the_list_and_shown_beside_schedulable(
    farrier: Prompt, silent: list[Machine]
) -> None:
    lines = (await farrier("node", "list", "--failed")).out.splitlines()[1:]
    assert len(lines) == len(silent)
    assert all(line.endswith("held by the brake") for line in lines)
    shown = (await farrier("node", "show", silent[0].name)).out.splitlines()
    (schedulable,) = (number for number, line in enumerate(shown) if line.startswith("schedulable"))
    assert shown[schedulable].split() == ["schedulable", "yes"]
    assert shown[schedulable + 1].startswith("held") and "by the brake of site ams1" in shown[schedulable + 1]


async def test_the_list_of_brakes_names_sites_and_nodes_and_then_the_lift(
    farrier: Prompt, site: Site, silent: list[Machine]
) -> None:
    (brake,) = (await farrier("site", "brakes", "--json")).json
    assert (brake["site"], brake["held"], brake["in_service"]) == ("ams1", 6, 6)
    line = (await farrier("site", "brakes")).out.splitlines()[1]
    assert "6 of 6" in line and "gpu-1, gpu-2, gpu-3 and 3 more" in line
    await farrier("site", "unbrake", "ams1", "--reason", "power failure", "--requested-by", "ann")
    assert "by ann: power failure" in (await farrier("site", "brakes")).out
    await site.conn.execute("SELECT farrier.lift_brake('ams1', 'over', '0')")
    await site.conn.execute("DELETE FROM farrier.departures")
    assert "no brake holds a node" in (await farrier("site", "brakes")).err
