"""`farrier resource act`: one action for many resources of a kind of another package."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt
from tests.support import crates, pg
from tests.support.crates import Yard

PACKED = "SELECT NOT EXISTS (SELECT FROM farrier_crates.crates WHERE state = 'packing')"
DELETIONS = "SELECT count(*) FROM farrier.resource_intents WHERE action = 'delete'"


@pytest.fixture
def prepared() -> pg.Install:
    return crates.install


@pytest.fixture
async def yard(db: pg.Database) -> AsyncIterator[Yard]:
    async with crates.opened(db, pool_size=3) as opened:
        for name in ("c-1", "c-2", "d-1"):
            await opened.create(name)
        yield opened


async def test_the_selected_resources_are_followed_to_the_state(farrier: Prompt, yard: Yard) -> None:
    async with yard.running():
        await yard.until(PACKED)
        said = await farrier("resource", "act", "crate", "delete", "c-*", "--yes", "--until", "gone", "--json")
    assert [(each["name"], each["status"], each["state"]) for each in said.json] == [
        ("c-1", "accepted", "gone"),
        ("c-2", "accepted", "gone"),
    ]
    assert [each["name"] for each in (await farrier("resource", "list", "crate", "--json")).json] == ["d-1"]


async def test_act_asks_and_reports_like_the_commands_for_nodes(farrier: Prompt, yard: Yard) -> None:
    await yard.pool.execute("UPDATE farrier_crates.crates SET state = 'packed' WHERE name = 'd-1'")
    refused = await farrier("resource", "act", "crate", "delete", "*", ends=ExitCode.USAGE)
    answers = "the table of actions would reject 2 now; no controller answered"
    assert f"delete 3 crates (2 packing, 1 packed; {answers})" in " ".join(refused.err.split())
    shown = await farrier("resource", "act", "crate", "delete", "*", "--dry-run", "--json", ends=ExitCode.FAILED)
    why = "delete is accepted in state packed; this crate is packing; wait until it is packed"
    assert [(each["name"], each["answer"], each["refusal"]) for each in shown.json] == [
        ("c-1", "rejected", why),
        ("c-2", "rejected", why),
        ("d-1", "depends", ""),
    ]
    await farrier("resource", "act", "crate", "delete", "--state", "packed", "--dry-run")
    assert await yard.pool.fetchval(DELETIONS) == 0


async def test_act_on_a_node_runs_the_command_of_the_action(farrier: Prompt, yard: Yard) -> None:
    await farrier("node", "add", "gpu-1")
    said = await farrier("resource", "act", "node", "pause", "gpu-1", "--reason", "hands in it", "--no-wait")
    assert said.out.startswith("gpu-1: pause is submitted")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["crate", "delete"], ExitCode.USAGE, "name the resources, or select them with --state or --site"),
        (["crate", "delete", "c-9"], ExitCode.REFUSED, "no crate is named 'c-9'"),
        (["crate", "paint", "c-1"], ExitCode.USAGE, "no action of crates is named 'paint'"),
        (["crate", "create", "c-9"], ExitCode.USAGE, "run farrier resource intent crate NAME create"),
        (["disk", "delete", "c-1"], ExitCode.USAGE, "no kind is named 'disk'"),
        (["crate", "delete", "c-1", "colour=red"], ExitCode.USAGE, "colour is unknown"),
        (["crate", "delete", "--state", "lost"], ExitCode.USAGE, "no state is named 'lost'"),
        (["crate", "delete", "c-1", "--until", "lost"], ExitCode.USAGE, "no crate has a state 'lost'"),
    ],
)
async def test_a_mistake_submits_nothing(
    farrier: Prompt, yard: Yard, words: list[str], code: ExitCode, text: str
) -> None:
    refused = await farrier("resource", "act", *words, ends=code)
    assert text in " ".join(refused.err.split())
    assert await yard.pool.fetchval(DELETIONS) == 0
