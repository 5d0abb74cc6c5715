"""`farrier kind`: a kind of another package is installed by its name, and listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from farrier.errors import ExitCode
from farrier.handlers.resource.extension import Extension
from farrier.model.kinds.resource import Answer
from tests.integration.cli.conftest import Prompt
from tests.support import crates, pg
from tests.support.crates import SPEC, Crate, CrateHandler, Hand

NAME = "tests.support.crates:CRATE"


@pytest.fixture(autouse=True)
def crate(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Extension[Crate, Answer, Hand] = Extension(
        spec=SPEC, snapshot=Crate, handler=CrateHandler(), columns=("labels",), sql=crates.CREATE
    )
    monkeypatch.setattr(crates, "CRATE", made, raising=False)


async def test_a_kind_is_installed_once_and_listed(farrier: Prompt) -> None:
    said = await farrier("kind", "install", NAME)
    assert said.out == "kind crate: installed, table farrier_crates.crates\n"
    said = await farrier("kind", "install", NAME)
    assert said.out == "kind crate: updated, table farrier_crates.crates\n"
    assert "crate" in (await farrier("kind", "list")).out


async def test_limits_of_a_named_kind_are_listed_with_those_of_farriers_own(farrier: Prompt, tmp_path: Path) -> None:
    settings = tmp_path / "farrier.toml"
    settings.write_text(f'[controller]\nkinds = ["{NAME}"]\n[sla]\n"crate.packing" = "7m"\n')
    limits = {each["key"]: each for each in (await farrier("sla", "list", "--config", settings, "--json")).json}
    assert (limits["crate.packing"]["limit"], limits["crate.packing"]["changed"]) == (420, True)
    assert limits["crate.packed"]["note"] == "this is where a crate belongs"
    assert limits["network_segment.provisioning"]["limit"] == 900
    assert "crate.gone" not in limits


async def test_an_object_that_is_no_extension_is_refused(farrier: Prompt) -> None:
    said = await farrier("kind", "install", "tests.support.crates:SPEC", ends=ExitCode.USAGE)
    assert "is not an Extension of farrier.library" in said.err


async def test_without_a_schema_the_command_advises_a_migration(empty_db: pg.Database) -> None:
    said = await Prompt(FARRIER_DATABASE_DSN=empty_db.dsn)("kind", "install", NAME, ends=ExitCode.FAILED)
    assert "run: farrier db migrate" in said.err


async def test_a_kind_is_removed_by_its_name_and_only_without_resources(farrier: Prompt, db: pg.Database) -> None:
    await farrier("kind", "install", NAME)
    await farrier("resource", "intent", "crate", "c-1", "create", "size=3")
    refused = await farrier("kind", "remove", "crate", ends=ExitCode.REFUSED)
    assert "have not ended: 1 in all, such as c-1" in refused.err
    async with db.connect() as conn:
        for state in ("packed", "emptying/unpack", "gone"):
            await conn.execute("UPDATE farrier_crates.crates SET state = $1", state)
    said = await farrier("kind", "remove", "crate")
    assert said.out == "kind crate: removed; its table, history and intents are kept\n"
    assert "crate" not in (await farrier("kind", "list")).out
    assert "packing" in (await farrier("history", "list", "--kind", "crate")).out
