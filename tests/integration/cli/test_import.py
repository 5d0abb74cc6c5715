"""`farrier import` previews, asks once, and makes nodes as the file or the region has them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farrier.errors import ExitCode
from farrier.sim.maas import ADMIN, Region, open_region
from farrier.sim.maas.records import Interface, Machine
from tests.integration.cli.conftest import Prompt
from tests.support import pg

FILE = """name,site,rack,labels,macs,bmc_address
gpu-1,ams1,r7,row=b,02:00:00:00:00:01,
gpu-2,ams1,r7,,02:00:00:00:00:02,https://10.0.0.2
gpu-3,ams1,r7,,,
"""
PRESENT = """
    SELECT farrier.register_node('gpu-1', labels => '{"spare": "yes"}', details => '{"rack": "r6"}');
    SELECT farrier.register_node('gpu-3', site => 'ams1', details => '{"rack": "r7"}');
"""
ASKED = """
    SELECT n.name, i.action, i.params::text FROM farrier.intents i
      JOIN farrier.nodes n ON n.id = i.node_id ORDER BY i.id
"""
ANSWER = """
    SET session_replication_role = replica;
    UPDATE farrier.intents SET status = 'accepted', answered_at = farrier.now();
"""


@pytest.fixture
async def file(tmp_path: Path, db: pg.Database) -> Path:
    """A file with a node to change, one to create, and one that has all values."""
    async with db.connect() as conn:
        await conn.execute(PRESENT)
    path = tmp_path / "nodes.csv"
    path.write_text(FILE)
    return path


async def asked(db: pg.Database) -> list[tuple[str, str, str]]:
    async with db.connect() as conn:
        return [tuple(record) for record in await conn.fetch(ASKED)]


async def test_the_preview_shows_what_would_change_and_changes_nothing(
    farrier: Prompt, db: pg.Database, file: Path
) -> None:
    said = await farrier("import", file, "--dry-run")
    header, first, second, _, answer = said.out.splitlines()
    assert header.split() == ["NODE", "WOULD", "VALUES"]
    assert first.split(maxsplit=2)[:2] == ["gpu-1", "change"]
    for text in ("rack=r6→r7", "site=ams1", "labels.row=b", "macs=02:00:00:00:00:01"):
        assert text in first
    assert second.split(maxsplit=2)[:2] == ["gpu-2", "create"] and "address=https://10.0.0.2" in second
    assert answer.split()[:3] == ["gpu-1", "enrolling", "depends"] and "no controller answered" in answer
    assert said.err.splitlines()[0] == "1 to create, 1 to change, 1 unchanged"
    planned = (await farrier("import", file, "--dry-run", "--json")).json
    assert [each["would"] for each in planned] == ["change", "create", "unchanged"]
    assert len((await farrier("node", "list", "--json")).json) == 2 and await asked(db) == []


async def test_nodes_are_created_and_changed_and_a_second_import_changes_nothing(
    farrier: Prompt, db: pg.Database, file: Path
) -> None:
    refused = await farrier("import", file, ends=ExitCode.USAGE)
    assert "create 1 node and change 1 node" in " ".join(refused.err.split())
    assert await asked(db) == []
    said = await farrier("import", file, "--yes", "--timeout", "1s", ends=ExitCode.FAILED)  # no controller answers
    assert "1 node registered" in said.err
    ((name, action, params),) = await asked(db)
    assert (name, action) == ("gpu-1", "set")
    assert '"labels": {"row": "b", "spare": "yes"}' in params and '"rack": "r7"' in params
    created = (await farrier("node", "show", "gpu-2", "--json")).json
    assert (created["site"], created["rack"], created["macs"]) == ("ams1", "r7", ["02:00:00:00:00:02"])
    assert created["bmc_address"] == "https://10.0.0.2"
    async with db.connect() as conn:  # what the controller would do with the intent
        await conn.execute(ANSWER)
        await conn.execute(
            """UPDATE farrier.nodes SET site = 'ams1', rack = 'r7', labels = '{"row": "b", "spare": "yes"}'
                WHERE name = 'gpu-1'"""
        )
        await conn.execute(
            "INSERT INTO farrier.node_macs (mac, node_id) SELECT '02:00:00:00:00:01', id FROM farrier.nodes"
            " WHERE name = 'gpu-1'"
        )
    again = await farrier("import", file, "--yes")
    assert (again.out, again.err) == ("", "0 to create, 0 to change, 3 unchanged\n")
    assert len(await asked(db)) == 1


@pytest.mark.usefixtures("file")
async def test_an_import_of_several_changes_names_no_option_that_it_does_not_have(
    farrier: Prompt, db: pg.Database, tmp_path: Path
) -> None:
    path = tmp_path / "changes.csv"
    path.write_text("name,rack\ngpu-1,r8\ngpu-3,r8\n")
    said = await farrier("import", path, "--yes", "--timeout", "1s", ends=ExitCode.FAILED)
    assert [name for name, *_ in await asked(db)] == ["gpu-1", "gpu-3"]
    assert "--idempotency-key" not in said.err


async def test_a_file_with_mistakes_is_refused_as_a_whole(farrier: Prompt, db: pg.Database, tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("name,site\ngpu-1,ams1\ngpu-2,ams 1\n7,ams1\n")
    refused = await farrier("import", path, "--yes", ends=ExitCode.USAGE)
    first, second, last = refused.err.splitlines()
    assert first.startswith(f"farrier: {path}: line 3: field site: 'ams 1' is not usable")
    assert second.startswith(f"farrier: {path}: line 4: field name: '7' is not valid")
    assert last == f"farrier: {path} has 2 mistakes; nothing was imported"
    assert (await farrier("node", "list", "--json")).json == []


async def test_an_address_of_another_node_creates_nothing(farrier: Prompt, db: pg.Database, file: Path) -> None:
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-9', macs => '{02:00:00:00:00:02}')")
    refused = await farrier("import", file, "--yes", ends=ExitCode.REFUSED)
    assert "the MAC address 02:00:00:00:00:02 already belongs to node gpu-9" in refused.err
    assert await asked(db) == []


@pytest.fixture
async def region() -> AsyncIterator[tuple[Region, str]]:
    """A region with two machines."""
    simulated = Region()
    async with open_region(simulated) as url:
        yield simulated, url


@pytest.fixture
def machines(region: tuple[Region, str]) -> None:
    """Two machines of the region, of which MAAS knows the model of one."""
    for number, info in ((1, {"system_product": "XE9680"}), (2, {})):
        region[0].keep(
            Machine(
                system_id=f"m4ch{number}n",
                hostname=f"gpu-{number}",
                interfaces=[Interface(id=number, name="eno1", mac_address=f"52:54:00:00:00:0{number}")],
                hardware_info=info,
            )
        )


@pytest.fixture
def at_region(farrier: Prompt, tmp_path: Path, region: tuple[Region, str]) -> Prompt:
    """Runs commands, with a site that has a region and one that has none."""
    directory = tmp_path / "sites"
    directory.mkdir()
    (directory / "north.toml").write_text(f'[maas]\nurl = "{region[1]}"\nkey = "env:FARRIER_SECRET_NORTH"\n')
    (directory / "south.toml").write_text("")
    farrier.environment |= {"FARRIER_SITES_DIRECTORY": str(directory), "FARRIER_SECRET_NORTH": ADMIN.key}
    return farrier


@pytest.mark.usefixtures("machines")
async def test_the_machines_of_a_region_become_nodes_once(at_region: Prompt, db: pg.Database) -> None:
    async with db.connect() as conn:  # a node that has the first machine, with another name
        await conn.execute("SELECT farrier.register_node('old', site => 'north', maas_id => 'm4ch1n')")
    said = await at_region("import", "--maas", "north", "--yes", "--timeout", "1s", ends=ExitCode.FAILED)
    header, old, new = said.out.splitlines()[:3]
    assert header.split() == ["NODE", "WOULD", "VALUES"]
    assert old.split()[:2] == ["old", "change"] and "model=XE9680" in old and "macs=52:54:00:00:00:01" in old
    assert new.split()[:2] == ["gpu-2", "create"] and "maas_id=m4ch2n" in new
    created = (await at_region("node", "show", "gpu-2", "--json")).json
    assert (created["site"], created["model"], created["macs"]) == ("north", None, ["52:54:00:00:00:02"])
    again = await at_region("import", "--maas", "north", "--dry-run")
    assert again.err.startswith("0 to create, 1 to change, 1 unchanged\n")


def kept(region: Region, system_id: str, hostname: str, **info: str) -> None:
    region.keep(Machine(system_id=system_id, hostname=hostname, hardware_info=info))


@pytest.mark.usefixtures("machines")
@pytest.mark.parametrize(
    ("details", "text"),
    [
        ("'{}', site => 'south'", "a node of site south is already named 'gpu-1'"),
        ("'{}', site => 'north', maas_id => '4th3r'", "a node with machine 4th3r is already named 'gpu-1'"),
    ],
)
async def test_a_node_that_has_another_machine_keeps_it(
    at_region: Prompt, db: pg.Database, details: str, text: str
) -> None:
    async with db.connect() as conn:
        await conn.execute(f"SELECT farrier.register_node('gpu-1', labels => {details})")
    refused = await at_region("import", "--maas", "north", "--yes", ends=ExitCode.USAGE)
    first, last = refused.err.splitlines()
    assert first.startswith(f"farrier: region of site north: machine m4ch1n: field name: {text}; ")
    assert first.endswith("farrier node add NAME --site north --maas-id m4ch1n")
    assert last == "farrier: region of site north has 1 mistake; nothing was imported"
    assert await asked(db) == [] and "gpu-2" not in (await at_region("node", "list")).out


@pytest.mark.usefixtures("machines")
async def test_a_host_name_that_is_no_valid_node_name_is_refused_with_a_command_to_rename_it(
    at_region: Prompt, region: tuple[Region, str]
) -> None:
    kept(region[0], "m4ch3n", "123")  # as MAAS 3.7.3 accepts it
    refused = await at_region("import", "--maas", "north", "--dry-run", ends=ExitCode.USAGE)
    assert "machine m4ch3n: field name: '123' is not valid" in refused.err
    assert "farrier node add NAME --site north --maas-id m4ch3n" in refused.err
    await at_region("node", "add", "gpu-3", "--site", "north", "--maas-id", "m4ch3n")
    assert (await at_region("import", "--maas", "north", "--yes")).err.endswith("2 nodes registered\n")


@pytest.mark.parametrize(
    ("reported", "model"),
    [
        ("PowerEdge R750 ", "PowerEdge R750"),
        ("tab\tproduct", "tab product"),
        (" ", None),
        ("To Be Filled By O.E.M.", None),
        ("Unknown", None),
        ("X" * 150, "X" * 100),
    ],
)
async def test_any_model_that_the_firmware_reports_is_imported(
    at_region: Prompt, region: tuple[Region, str], reported: str, model: str | None
) -> None:
    kept(region[0], "m4ch1n", "gpu-1", system_product=reported)
    await at_region("import", "--maas", "north", "--yes")
    assert (await at_region("node", "show", "gpu-1", "--json")).json["model"] == model
    assert (await at_region("import", "--maas", "north")).err.startswith("0 to create, 0 to change, 1 unchanged")


@pytest.mark.usefixtures("machines")
async def test_the_region_is_only_read(at_region: Prompt, region: tuple[Region, str]) -> None:
    methods: set[str] = set()
    region[0].on_answer.append(lambda exchange: methods.add(exchange.method))
    await at_region("import", "--maas", "north", "--dry-run")
    assert methods == {"GET"}


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ([], ExitCode.USAGE, "give either a FILE or --maas SITE"),
        (["nodes.csv", "--maas", "north"], ExitCode.USAGE, "give either a FILE or --maas SITE"),
        (["/nowhere/nodes.csv"], ExitCode.USAGE, "/nowhere/nodes.csv: cannot read the file: No such file"),
        (["--maas", "nroth"], ExitCode.USAGE, "no site 'nroth'; did you mean 'north'?"),
        (["--maas", "south"], ExitCode.USAGE, "site south has no MAAS region; add [maas] to its file"),
        (["--maas", "north"], ExitCode.USAGE, "the region of site north has no machines"),
    ],
)
async def test_an_import_that_is_refused_prints_one_line(
    at_region: Prompt, words: list[str], code: ExitCode, text: str
) -> None:
    refused = await at_region("import", *words, ends=code)
    assert text in " ".join(refused.err.split())
    assert not refused.out


async def test_a_region_that_refuses_the_key_is_reported_in_one_line(at_region: Prompt) -> None:
    at_region.environment["FARRIER_SECRET_NORTH"] = "aaa:bbb:ccc"
    refused = await at_region("import", "--maas", "north", ends=ExitCode.FAILED)
    assert "it refuses the API key" in refused.err and refused.err.count("\n") == 1
