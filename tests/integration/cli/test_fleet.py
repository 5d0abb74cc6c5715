"""The lists of controllers, monitors and brakes, and the rules for alerts, as tables, as JSON and as files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import farrier as farrier_package
from farrier.errors import ExitCode
from farrier.io.calls.doors import PostgresDoor
from farrier.model.loop.controllers import SHARDS
from farrier.model.loop.doors import DoorKind
from tests.integration.cli.conftest import Prompt
from tests.integration.node.test_brake_shown import silent, site
from tests.support import owners, pg
from tests.support.monitors import grant, report
from tests.support.site import Machine, Site

__all__ = ["silent", "site"]


def rows(out: str) -> list[list[str]]:
    """The words of each row of the table, without its headings."""
    return [line.split() for line in out.splitlines()[1:]]


async def test_shards_without_a_controller_are_listed_by_kind_before_any_has_begun(farrier: Prompt) -> None:
    found = (await farrier("controllers", "--json")).json
    assert {each["name"] for each in found} == {None}
    assert [each["shards"] for each in found if each["kind"] == "node"] == [SHARDS]
    assert ["none", "node", str(SHARDS)] in rows((await farrier("controllers")).out)


async def test_a_controller_is_listed_with_its_release_renewal_and_shards_of_each_kind(
    farrier: Prompt, db: pg.Database
) -> None:
    async with db.pool(size=1) as connections:
        id_ = await owners.joined(connections, "rack-1", {"maas_region": 0.0, "node": 90.0}, shards=range(60))
    own = [each for each in (await farrier("controllers", "--json")).json if each["name"] == "rack-1"]
    assert {(each["id"], each["state"], each["release"]) for each in own} == {
        (str(id_), "alive", farrier_package.__version__)
    }
    assert [(each["kind"], each["shards"], each["lag"]) for each in own] == [("maas_region", 60, 0), ("node", 60, 90)]
    out = (await farrier("controllers")).out
    assert f"rack-1 ({id_.hex[:8]})" in out and farrier_package.__version__ in out
    assert ["node", "60", "1m", "30s"] in [row[-4:] for row in rows(out)]
    assert ["none", "node", str(SHARDS - 60)] in rows(out)
    assert (await farrier("controllers", "-o", "name")).out.split() == ["rack-1", "none"]
    assert (await farrier("controllers", "--sort-by", "-lag", "-o", "jsonpath=$[0].kind")).out == "node\n"


async def test_an_expired_controller_is_listed_as_long_as_it_has_shards(farrier: Prompt, db: pg.Database) -> None:
    async with db.pool(size=1) as connections:
        dead = await owners.joined(connections, "rack-1", {"node": 0.0})
        await owners.declared_dead(connections, dead)
    found = (await farrier("controllers", "--json")).json
    assert [(each["state"], each["shards"]) for each in found if each["kind"] == "node"] == [("expired", SHARDS)]


async def test_a_controller_that_is_not_renewed_is_listed_as_out_of_touch(farrier: Prompt, db: pg.Database) -> None:
    async with db.pool(size=1) as connections:
        await owners.joined(connections, "rack-1", {"node": 0.0})
    await db.advance(timedelta(seconds=8))
    assert "out of touch" in (await farrier("controllers")).out


async def test_doors_are_listed_beside_controllers(farrier: Prompt, db: pg.Database) -> None:
    async with db.pool(size=1) as connections:
        door = PostgresDoor(connections, DoorKind.AGENTS, "door-1")
        door.reached()
        await door.beat()
    (own,) = [each for each in (await farrier("controllers", "--json")).json if each["name"] == "door-1"]
    assert (own["id"], own["role"], own["state"]) == (str(door.id), "door of agents", "alive")
    assert own["reached_at"] is not None and own["kind"] is None
    await db.advance(timedelta(minutes=2))
    out = (await farrier("controllers")).out
    assert f"door-1 ({door.id.hex[:8]})" in out and "door of agents" in out and "silent" in out and "2m" in out


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


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://docs.example/farrier/", "https://docs.example/farrier/reference/failures.md#failure-timeout"),
        ("https://docs.example/{page}/", "https://docs.example/reference/failures/#failure-timeout"),
        ("", "docs/reference/failures.md#failure-timeout"),
    ],
)
async def test_rules_are_printed_as_yaml_and_as_json_with_links_to_the_pages_of_the_setting(
    nowhere: Prompt, tmp_path: Path, url: str, link: str
) -> None:
    file = tmp_path / "farrier.toml"
    file.write_text(f'[metrics]\nrunbooks_url = "{url}"\n')
    said = await nowhere("alerts", "--config", file)
    assert said.out.startswith("groups:\n  - name: 'farrier-fleet'\n")
    made = (await nowhere("alerts", "--config", file, "--json")).json
    links = {rule["annotations"]["runbook_url"] for group in made["groups"] for rule in group["rules"]}
    assert link in links
    assert all(f"runbook_url: '{each}'" in said.out for each in links)


async def test_a_url_of_runbooks_that_is_not_absolute_is_refused(nowhere: Prompt, tmp_path: Path) -> None:
    file = tmp_path / "farrier.toml"
    file.write_text('[metrics]\nrunbooks_url = "docs.example"\n')
    said = await nowhere("alerts", "--config", file, ends=ExitCode.USAGE)
    assert "absolute URL" in said.err and "docs.example" in said.err


async def test_rules_are_those_of_the_settings(nowhere: Prompt, tmp_path: Path) -> None:
    file = tmp_path / "farrier.toml"
    file.write_text('[metrics]\nname_resources = false\n[sla]\n"onboarding.end_to_end" = "90m"\n')
    said = await nowhere("alerts", "--config", file)
    assert "onboarding 1h 30m, decommission 8h" in said.out
    assert "farrier_resource_above_sla_seconds" not in said.out


async def test_rules_are_written_to_a_file_or_the_error_is_reported(nowhere: Prompt, tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    assert (await nowhere("alerts", "--out", file)).out == ""
    assert file.read_text() == (await nowhere("alerts")).out
    said = await nowhere("alerts", "--out", tmp_path / "no" / "rules.yml", ends=ExitCode.USAGE)
    assert "No such file" in said.err
