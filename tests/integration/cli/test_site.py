"""`farrier site`: shows the configured sites and the state of their regions, and checks files before they are used."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farrier.agent import CLEAN_CHECK as NAME
from farrier.errors import ExitCode
from farrier.sim.maas import ADMIN, OPERATOR, Region, open_region, scripts
from tests.integration.cli.conftest import Prompt
from tests.support import pg

NORTH = """
[maas]
url = "{url}"
key = "env:FARRIER_SECRET_NORTH"
[deploy]
bootstrap_ttl = "90m"
[cloud_init]
template_file = "user-data.j2"
[[network.bonds]]
name = "bond0"
ports = ["ens1f0", "ens1f1"]
"""


@pytest.fixture
def region() -> Region:
    return Region()


@pytest.fixture
async def url(region: Region) -> AsyncIterator[str]:
    async with open_region(region) as url:
        yield url


@pytest.fixture
def sites(tmp_path: Path, url: str) -> Path:
    """A site with a region, and one without."""
    (tmp_path / "north.toml").write_text(NORTH.format(url=url))
    (tmp_path / "user-data.j2").write_text("#cloud-config\n")
    (tmp_path / "south.toml").write_text("")
    return tmp_path


@pytest.fixture
def at_sites(farrier: Prompt, sites: Path) -> Prompt:
    farrier.environment |= {"FARRIER_SITES_DIRECTORY": str(sites), "FARRIER_SECRET_NORTH": ADMIN.key}
    return farrier


async def test_sites_are_listed_with_the_state_of_their_regions(at_sites: Prompt, db: pg.Database, url: str) -> None:
    async with db.connect() as conn:
        await conn.execute(
            "INSERT INTO farrier.maas_regions (name, url, last_error) VALUES ('north', $1, 'no key')", url
        )
    said = await at_sites("site", "list")
    header, north, south = said.out.splitlines()
    assert header.split() == ["SITE", "REGION", "STATE", "FOR", "ERROR"]
    assert north.split()[:3] == ["north", url, "starting"] and north.endswith("no key")
    assert south.split() == ["south", "none"]
    listed = (await at_sites("site", "list", "--json")).json
    assert [(line["site"], line["url"]) for line in listed] == [("north", url), ("south", None)]
    assert listed[0]["region"]["last_error"] == "no key" and listed[1]["region"] is None


async def test_sites_are_listed_without_a_database_too(at_sites: Prompt, url: str) -> None:
    at_sites.environment["FARRIER_DATABASE_DSN"] = "postgresql://127.0.0.1:1/nowhere"
    said = await at_sites("site", "list")
    assert url in said.out and "the health of regions is unknown" in said.err


async def test_regions_in_the_database_are_listed_even_if_the_sites_cannot_be_read(
    at_sites: Prompt, db: pg.Database, tmp_path: Path
) -> None:
    async with db.connect() as conn:
        await conn.execute("INSERT INTO farrier.maas_regions (name, url) VALUES ('north', 'http://maas')")
    at_sites.environment["FARRIER_SITES_DIRECTORY"] = str(tmp_path / "gone")
    said = await at_sites("site", "list", ends=ExitCode.USAGE)
    _header, north = said.out.splitlines()
    assert north.split()[:4] == ["north", "not", "known", "starting"]
    assert (
        f"cannot read the directory of the sites '{tmp_path}/gone'" in said.err
        and "no files of sites in" not in said.err
    )
    (listed,) = (await at_sites("site", "list", "--json", ends=ExitCode.USAGE)).json
    assert (listed["site"], listed["url"], listed["region"]["state"]) == ("north", None, "starting")


async def test_a_site_is_shown_with_its_defaults(at_sites: Prompt, url: str) -> None:
    said = (await at_sites("site", "show", "north")).out
    shown = dict(line.split(None, 1) for line in said.splitlines() if not line.startswith("network"))
    assert shown["maas.url"] == url
    assert shown["deploy.bootstrap_ttl"] == "1h 30m"
    assert shown["release.remove_record"] == "false"
    assert (shown["cloud_init.template"], shown["agents.ca"]) == ("14 bytes", "0 bytes")
    assert "network.bonds 1.ports" in said and "ens1f0, ens1f1" in said
    held = (await at_sites("site", "show", "north", "--json")).json
    assert held["site"]["deploy"]["bootstrap_ttl"] == 5400 and held["region"] is None


async def test_an_unknown_site_is_refused_with_a_list_of_the_known_sites(at_sites: Prompt) -> None:
    said = await at_sites("site", "show", "nroth", ends=ExitCode.USAGE)
    assert "no site 'nroth'; expected one of north, south" in said.err


async def test_files_are_checked_without_a_database(nowhere: Prompt, sites: Path) -> None:
    checked = await nowhere("site", "check", "--files-only", sites)
    assert checked.out == "the files of 2 sites are valid: north, south\n"
    (sites / "south.toml").write_text("[release]\nerase = 'all'\n")
    said = await nowhere("site", "check", sites, ends=ExitCode.USAGE)
    assert "- south.toml: [release] erase: expected one of 'none', 'quick', 'secure', 'full'; got 'all'" in said.err
    assert said.out == ""


async def test_the_check_of_a_single_site_reports_it_in_the_singular(nowhere: Prompt, sites: Path) -> None:
    (sites / "south.toml").unlink()
    said = await nowhere("site", "check", "--files-only", sites)
    assert said.out == "the file of 1 site is valid: north\n"


@pytest.mark.parametrize("key", [None, "no key at all"])
@pytest.mark.parametrize("command", [("site", "check"), ("config", "check")], ids=" ".join)
async def test_a_check_fails_if_the_key_of_a_region_cannot_be_read(
    at_sites: Prompt, command: tuple[str, str], key: str | None
) -> None:
    at_sites.environment["FARRIER_SECRET_NORTH"] = key
    said = await at_sites(*command, ends=ExitCode.FAILED)
    assert "cannot read the secret of maas.key of site north" in said.err and "no key at all" not in said.err
    (fault,) = (await at_sites(*command, "--json", ends=ExitCode.FAILED)).json["unreadable"]
    assert fault["setting"] == "maas.key of site north"


async def test_without_a_directory_there_is_nothing_to_check(nowhere: Prompt) -> None:
    said = await nowhere("site", "check", ends=ExitCode.USAGE)
    assert "sites.directory" in said.err


async def test_site_check_calls_the_regions_on_request(at_sites: Prompt) -> None:
    await at_sites("site", "prepare")
    said = (await at_sites("site", "check", "--ask")).out.splitlines()
    assert said[0] == "the files of 2 sites are valid: north, south"
    assert said[2].split() == ["north", "3.7.3", ADMIN.username]
    at_sites.environment["FARRIER_SECRET_NORTH"] = OPERATOR.key
    (region,) = (await at_sites("site", "check", "--ask", "--json")).json["regions"]
    assert (region["username"], region["administrator"], region["error"]) == (OPERATOR.username, False, None)


async def test_a_region_is_prepared_once_and_a_foreign_text_is_replaced(at_sites: Prompt, region: Region) -> None:
    wrong = (await at_sites("site", "check", "--ask", ends=ExitCode.FAILED)).out
    assert f"MAAS has no testing script {NAME}; run: farrier site prepare north" in wrong
    for result in ("created", "unchanged"):
        (line,) = (await at_sites("site", "prepare", "--json")).json
        assert (line["site"], line["result"], line["error"]) == ("north", result, None)
    scripts.edited(region, region.scripts[NAME], "#!/bin/sh\nexit 0\n")
    wrong = (await at_sites("site", "check", "--ask", ends=ExitCode.FAILED)).out
    assert "is not farrier's; run: farrier site prepare north" in wrong
    (line,) = (await at_sites("site", "prepare", "north", "--json")).json
    assert (line["result"], len(region.scripts[NAME].history)) == ("updated", 3)
    await at_sites("site", "check", "--ask")


async def test_a_region_in_which_another_script_has_farriers_tag_is_not_prepared(
    at_sites: Prompt, region: Region
) -> None:
    await at_sites("site", "prepare")
    other = copy.copy(region.scripts[NAME])
    other.name, other.tags = "mine", [NAME]
    region.scripts["mine"] = other
    said = (await at_sites("site", "prepare", ends=ExitCode.FAILED)).out
    assert f"MAAS would also run mine, which has the tag {NAME}; remove this tag" in said


async def test_a_region_that_erases_at_every_release_by_itself_is_refused(at_sites: Prompt, region: Region) -> None:
    await at_sites("site", "prepare")
    region.site.erases_on_release = True
    said = (await at_sites("site", "check", "--ask", ends=ExitCode.FAILED)).out
    assert "enable_disk_erasing_on_release is on" in said and "switch it off" in said


@pytest.mark.parametrize(
    ("key", "told"),
    [(None, "FARRIER_SECRET_NORTH"), ("no key at all", "credential"), ("aaa:bbb:ccc", "it refuses the API key")],
)
async def test_a_region_that_refuses_the_key_ends_the_check_with_1(
    at_sites: Prompt, key: str | None, told: str
) -> None:
    at_sites.environment["FARRIER_SECRET_NORTH"] = key
    (region,) = (await at_sites("site", "check", "--ask", "--json", ends=ExitCode.FAILED)).json["regions"]
    assert region["version"] is None
    assert told in region["error"] and "no key at all" not in region["error"] and "bbb" not in region["error"]
