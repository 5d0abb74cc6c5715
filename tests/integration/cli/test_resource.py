"""`farrier resource` on a kind of another package: its resources are listed, shown and asked like those of any kind."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from farrier.cli.output import pages
from farrier.errors import ExitCode
from farrier.model.intents.actions import ACTIONS
from farrier.model.node.layers import NodeStatus
from tests.integration.cli.conftest import Prompt
from tests.support import crates, owners, pg
from tests.support.crates import Yard


@pytest.fixture
def prepared() -> pg.Install:
    return crates.install


@pytest.fixture
async def yard(db: pg.Database) -> AsyncIterator[Yard]:
    async with crates.opened(db, pool_size=3) as opened:
        yield opened


@pytest.fixture
async def three(yard: Yard) -> Yard:
    """A yard with three crates."""
    for name in ("c-1", "c-2", "d-1"):
        await yard.create(name)
    return yard


DELETIONS = "SELECT count(*) FROM farrier.resource_intents WHERE action = 'delete'"
PACKED = "SELECT NOT EXISTS (SELECT FROM farrier_crates.crates WHERE state = 'packing')"


async def test_kinds_are_listed_with_counts_of_their_resources(farrier: Prompt, yard: Yard) -> None:
    await yard.create("c-1")
    said = (await farrier("kind", "list")).out
    assert "crate" in said
    assert "1 packing" in said
    told = (await farrier("kind", "list", "--json")).json
    (crate,) = [kind for kind in told if kind["kind"] == "crate"]
    assert [state["state"] for state in crate["states"]] == ["packing", "emptying/unpack", "packed", "gone"]
    assert [action["action"] for action in crate["actions"]] == ["create", "delete", "update"]


async def test_nodes_are_a_kind_in_the_list(farrier: Prompt, yard: Yard) -> None:
    for name in ("gpu-1", "gpu-2"):
        await farrier("node", "add", name)
    said = (await farrier("kind", "list")).out
    assert re.search(r"^node +2\b", said, re.MULTILINE)
    told = (await farrier("kind", "list", "--json")).json
    (node,) = [kind for kind in told if kind["kind"] == "node"]
    counts = {(state["layer"], state["state"]): state["count"] for state in node["states"]}
    assert node["states"][0]["layer"] == "status"
    assert counts["status", "enrolling"] == counts["management", "unmanaged"] == 2
    assert (counts["status", "active"], counts["status", "deleted"], counts["onboarding", "running"]) == (0, None, None)
    actions = {each["action"]: each for each in node["actions"]}
    assert {name: each["states"] for name, each in actions.items()} == {
        action.value: [status for status in NodeStatus if status in spec.accepted_in]
        for action, spec in ACTIONS.items()
    }


async def test_a_list_of_several_pages_has_every_node_and_every_resource_once(
    farrier: Prompt, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_ROWS", 2)
    names = ["gpu-1", "gpu-2", "gpu-20", "gpu-21", "gpu-3"]  # the first page ends with a prefix of the next name
    for name in names:
        await farrier("node", "add", name)
    assert (await farrier("node", "list", "-o", "name")).out.split() == names
    await yard.create("c-1")
    await yard.create("c-2")
    async with yard.running():
        await yard.db.until(PACKED)
        await yard.ask("delete", "c-2")
        await yard.db.until("SELECT count(*) = 1 FROM farrier_crates.crates WHERE ended_at IS NOT NULL")
    await yard.create("c-2")
    await yard.create("c-3")
    listed = (await farrier("resource", "list", "crate", "--ended", "--json")).json
    assert [each["name"] for each in listed] == ["c-1", "c-2", "c-2", "c-3"]
    assert [each["state"] for each in listed if each["name"] == "c-2"] == ["gone", "packing"]


async def test_a_list_has_every_resource_that_has_not_ended(farrier: Prompt, yard: Yard) -> None:
    for name in ("c-2", "c-1", "c-3"):
        await yard.create(name)
    async with yard.running():
        await yard.db.until(PACKED)
        await yard.ask("delete", "c-2")
        await yard.db.until("SELECT count(*) = 1 FROM farrier_crates.crates WHERE ended_at IS NOT NULL")
    listed = (await farrier("resource", "list", "crate", "--json")).json
    assert [(each["name"], each["state"], each["detail"]["size"]) for each in listed] == [
        ("c-1", "packed", 3),
        ("c-3", "packed", 3),
    ]
    everything = (await farrier("resource", "list", "crate", "--ended")).out
    assert "c-2" in everything
    assert "size=3" in everything
    assert (await farrier("resource", "list", "crate", "--state", "packing", "--json")).json == []
    assert "no crate matches" in (await farrier("resource", "list", "crate", "--site", "ams")).err


async def test_names_globs_and_ids_select_the_listed_resources(farrier: Prompt, yard: Yard) -> None:
    for name in ("c-1", "c-12", "c-2", "d"):
        await yard.create(name)

    async def listed(*words: str) -> list[str]:
        return [each["name"] for each in (await farrier("resource", "list", "crate", "--json", *words)).json]

    assert await listed("c-1*", "d") == ["c-1", "c-12", "d"]
    assert await listed("c-1", "4") == ["c-1", "d"]
    assert await listed("x*", "[z-a]") == []
    assert await listed("c-?", "--state", "packing,packed") == ["c-1", "c-2"]
    refused = await farrier("resource", "list", "crate", "d", "e", "ü", ends=ExitCode.REFUSED)
    assert "d" in refused.out and refused.err.startswith("farrier: no crate is named 'e', 'ü'\n")


async def test_the_filter_for_a_state_includes_its_substates(farrier: Prompt, yard: Yard) -> None:
    yard.hand.hold()
    await yard.create("c-1")
    async with yard.running():
        await yard.db.until(PACKED)
        await yard.ask("delete", "c-1")
        await yard.hand.begun.wait()
        for state in ("emptying", "emptying/unpack"):
            (listed,) = (await farrier("resource", "list", "crate", "--state", state, "--json")).json
            assert listed["controller"] and listed["step"] and listed["step_begun_at"]
        yard.hand.free.set()


async def test_show_prints_the_kinds_own_columns_and_the_intents(farrier: Prompt, yard: Yard) -> None:
    await yard.create("c-1")
    asked = await yard.ask("update", "c-1", '{"labels": ["blue"]}')
    said = (await farrier("resource", "show", "crate", "c-1")).out
    assert "packing" in said
    assert "of 5m" not in said
    assert "update" in said
    told = (await farrier("resource", "show", "crate", "c-1", "--json")).json
    assert told["detail"] == {"size": 3, "labels": [], "slot": 1}
    assert told["clocks"][0]["limit"] == 300
    assert [request["id"] for request in told["requests"]] == [asked, asked - 1]


async def test_show_adds_the_result_of_the_kinds_detail_function(farrier: Prompt, yard: Yard) -> None:
    await yard.create("c-1")
    await yard.pool.execute(
        """
        CREATE FUNCTION farrier_crates.crate_detail(id bigint) RETURNS jsonb LANGUAGE sql STABLE
            RETURN jsonb_build_object('weight', (SELECT 7 * c.size FROM farrier_crates.crates c WHERE c.id = $1))
        """
    )
    told = (await farrier("resource", "show", "crate", "c-1", "--json")).json
    assert (told["detail"]["weight"], told["detail"]["size"]) == (21, 3)


async def test_why_reports_what_a_resource_waits_for_its_limit_its_error_and_the_source(
    farrier: Prompt, yard: Yard
) -> None:
    await yard.create("c-1")
    await yard.pool.execute("UPDATE farrier_crates.crates SET last_error = 'no straw'")
    await yard.db.advance(timedelta(minutes=7))
    said = (await farrier("resource", "why", "crate", "c-1")).out
    assert "is packing" in said
    assert "its first run" in said
    assert re.search(r"2m( \d+s)? above its limit of 5m", said)
    assert "no straw" in said
    assert "run by" in said and "no controller" in said
    assert "no controller runs its handler" in said
    async with yard.running():
        await yard.db.until("SELECT EXISTS (SELECT FROM farrier.outcomes WHERE outcome ->> 'outcome' = 'do_nothing')")
    told = (await farrier("resource", "why", "crate", "c-1", "--json")).json
    assert told["reason"] == "waits for nothing: it is in its target state"
    assert "crates" in told["source"]
    assert told["clocks"][0]["note"] == "this is where a crate belongs"
    await owners.joined(yard.pool, "rack-1", {"crate": 3.0})
    told = (await farrier("resource", "why", "crate", "c-1", "--json")).json
    assert told["run_by"].startswith("rack-1, shard swept ")
    assert "no controller" not in told["advice"]


async def test_why_advises_about_a_resource_that_is_above_its_limit_without_an_error(
    farrier: Prompt, yard: Yard
) -> None:
    await yard.create("c-1")
    await yard.db.advance(timedelta(minutes=7))
    await owners.joined(yard.pool, "rack-1", {"crate": 3.0})
    told = (await farrier("resource", "why", "crate", "c-1", "--json")).json
    assert told["advice"].startswith("state packing has lasted since ")
    assert "above its limit: check what the resource waits for" in told["advice"]


async def test_history_lists_each_transition_of_a_resource(farrier: Prompt, yard: Yard) -> None:
    id_ = await yard.create("c-1")
    async with yard.running():
        await yard.db.until(
            "SELECT EXISTS (SELECT FROM farrier.history WHERE kind = 'crate' AND from_value IS NOT NULL)"
        )
    made, change = (await farrier("resource", "history", "crate", "c-1", "--json")).json
    assert (made["from"], made["to"]) == (None, "packing")
    assert (change["name"], change["from"], change["to"], change["id"]) == ("c-1", "packing", "packed", id_)
    listed = (await farrier("history", "list", "--kind", "crate", "--json")).json
    assert [line["name"] for line in listed] == ["c-1", "c-1"]
    assert "c-1" in (await farrier("history", "list", "--kind", "crate")).out
    assert (await farrier("resource", "history", "crate", "c-1", "--all", "--json")).json == [made, change]
    assert (await farrier("resource", "history", "crate", "--all", "--json")).json == [made, change]
    assert "--help)" in (await farrier("resource", "history", "crate", ends=ExitCode.USAGE)).err
    await yard.db.advance(timedelta(minutes=2))
    exported = (await farrier("history", "export", "--kind", "crate")).lines
    assert [line["name"] for line in exported] == ["c-1", "c-1"]


async def test_a_create_intent_makes_a_resource_and_a_delete_ends_it(farrier: Prompt, yard: Yard) -> None:
    said = await farrier("resource", "intent", "crate", "c-9", "create", "size=7", "labels=red,blue", "--wait")
    assert "accepted" in said.out
    (made,) = (await farrier("resource", "list", "crate", "--json")).json
    assert (made["detail"]["size"], made["detail"]["labels"]) == (7, ["red", "blue"])
    async with yard.running():
        await yard.db.until(PACKED)
        said = await farrier("resource", "intent", "crate", "c-9", "delete", "--until", "gone")
        assert "c-9 is gone" in said.out


async def test_a_create_is_accepted_even_if_the_command_does_not_wait(farrier: Prompt, yard: Yard) -> None:
    said = (await farrier("resource", "intent", "crate", "c-9", "create", "size=7", "--json")).json
    assert (said["status"], said["kind"]) == ("accepted", "crate")
    assert "accepted" in (await farrier("resource", "intent", "crate", "c-8", "create", "size=0x7")).out
    assert (await farrier("resource", "show", "crate", "c-8", "--json")).json["detail"]["size"] == 7


async def test_an_unknown_state_in_until_is_refused_before_the_intent_is_inserted(farrier: Prompt, yard: Yard) -> None:
    await yard.create("c-1")
    for words in (
        ("list", "crate", "--state", "lost"),
        ("intent", "crate", "c-1", "delete", "--until", "lost"),
        ("intent", "crate", "c-1", "delete", "--until", "unpack"),
    ):
        said = (await farrier("resource", *words, ends=ExitCode.USAGE)).err
        assert "emptying/unpack" in said
        assert "packed" in said
    assert await yard.pool.fetchval(DELETIONS) == 0


async def test_until_does_not_wait_for_a_state_of_an_ended_resource(farrier: Prompt, yard: Yard) -> None:
    await yard.create("c-1")
    async with yard.running():
        await yard.db.until(PACKED)
        words = ("c-1", "delete", "--until", "packing", "--timeout", "1h")
        said = await farrier("resource", "intent", "crate", *words, ends=ExitCode.FAILED)
    assert "c-1 has ended as gone, so it cannot become packing" in said.err


async def test_until_a_state_accepts_its_substates(farrier: Prompt, yard: Yard) -> None:
    yard.hand.hold()
    await yard.create("c-1")
    async with yard.running():
        await yard.db.until(PACKED)
        said = await farrier("resource", "intent", "crate", "c-1", "delete", "--until", "emptying")
        yard.hand.free.set()
    assert "c-1 is emptying" in said.out


async def test_an_unknown_kind_name_action_or_value_is_refused_with_the_alternatives(
    farrier: Prompt, yard: Yard
) -> None:
    await yard.create("c-1")
    unknown = await farrier("resource", "list", "barrel", ends=ExitCode.USAGE)
    assert "barrel" in unknown.err
    assert "crate" in unknown.err
    assert "'c-7'" in (await farrier("resource", "show", "crate", "c-7", ends=ExitCode.REFUSED)).err
    action = await farrier("resource", "intent", "crate", "c-1", "paint", ends=ExitCode.USAGE)
    assert "create, delete, update" in action.err
    size = await farrier("resource", "intent", "crate", "c-2", "create", "size=many", ends=ExitCode.USAGE)
    assert "whole number" in size.err


async def test_resource_commands_for_nodes_run_the_commands_of_nodes(farrier: Prompt) -> None:
    await farrier("node", "add", "gpu-1", "--site", "ams")
    for words in (["show"], ["why"], ["history"]):
        own = await farrier("node", *words, "gpu-1", "--json")
        assert (await farrier("resource", *words, "node", "gpu-1", "--json")).out == own.out
    listed = (await farrier("resource", "list", "node", "--status", "enrolling", "--site", "ams", "--json")).json
    assert [each["name"] for each in listed] == ["gpu-1"]
    assert "pause of gpu-1" in (await farrier("resource", "intent", "node", "gpu-1", "pause", "reason=why not")).out


async def test_the_refusal_of_a_missing_resource_names_the_kind_to_list(farrier: Prompt, yard: Yard) -> None:
    await yard.create("c-1")
    for kind, listed in (("node", "nodes"), ("crate", "resources of kind crate")):
        refused = await farrier("resource", "show", kind, "gone", ends=ExitCode.REFUSED)
        assert f"list the {listed} to find its name" in refused.err.lower()


async def test_limits_of_a_kind_that_only_the_database_knows_are_listed(
    farrier: Prompt, nowhere: Prompt, yard: Yard
) -> None:
    listed = {each["key"]: each for each in (await farrier("sla", "list", "--json")).json}
    assert listed["crate.packing"]["limit"] == 300
    assert listed["crate.emptying.unpack"]["limit"] == 900
    assert listed["crate.packed"]["note"] == "this is where a crate belongs"
    assert not {"crate.gone", "node.active"} & listed.keys() and "status.active" in listed
    assert not [each for each in (await nowhere("sla", "list", "--json")).json if each["key"].startswith("crate")]


async def test_a_limit_of_the_settings_is_listed_and_applies(farrier: Prompt, yard: Yard, tmp_path: Path) -> None:
    file = tmp_path / "farrier.toml"
    limit = '[sla]\ncrate.packing = "2m"\n[sla.site.north]\ncrate.packing = "1h"\n'
    file.write_text(f'[controller]\nkinds = ["tests.support.crates:SPEC"]\n{limit}')
    listed = [each for each in (await farrier("sla", "list", "--json", "--config", file)).json if each["changed"]]
    assert [(each["section"], each["key"], each["limit"]) for each in listed] == [
        ("sla", "crate.packing", 120),
        ("sla.site.north", "crate.packing", 3600),
    ]
    for name, site in (("c-1", None), ("c-2", "north")):
        await yard.pool.execute("INSERT INTO farrier_crates.crates (name, site) VALUES ($1, $2)", name, site)
    await yard.db.advance(timedelta(minutes=3))
    assert (await farrier("sla", "breaches", "--json")).json == []
    (breach,) = (await farrier("sla", "breaches", "--json", "--config", file)).json
    assert (breach["kind"], breach["name"]) == ("crate", "c-1")
    assert (breach["state"], breach["limit"]) == ("packing", 120)
    said = (await farrier("sla", "breaches", "--config", file)).out
    assert "crate/c-1" in said
    (late,) = [
        each
        for each in (await farrier("resource", "list", "crate", "--json", "--config", file)).json
        if each["clocks"][0]["above"]
    ]
    assert late["name"] == "c-1"


async def test_the_selected_resources_are_followed_to_the_state(farrier: Prompt, three: Yard) -> None:
    async with three.running():
        await three.db.until(PACKED)
        said = await farrier("resource", "act", "crate", "delete", "c-*", "--yes", "--until", "gone", "--json")
    assert [(each["name"], each["status"], each["state"]) for each in said.json] == [
        ("c-1", "accepted", "gone"),
        ("c-2", "accepted", "gone"),
    ]
    assert [each["name"] for each in (await farrier("resource", "list", "crate", "--json")).json] == ["d-1"]


async def test_act_asks_and_reports_like_the_commands_for_nodes(farrier: Prompt, three: Yard) -> None:
    await three.pool.execute("UPDATE farrier_crates.crates SET state = 'packed' WHERE name = 'd-1'")
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
    assert await three.pool.fetchval(DELETIONS) == 0


async def test_act_on_a_node_runs_the_command_of_the_action(farrier: Prompt, three: Yard) -> None:
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
    farrier: Prompt, three: Yard, words: list[str], code: ExitCode, text: str
) -> None:
    refused = await farrier("resource", "act", *words, ends=code)
    assert text in " ".join(refused.err.split())
    assert await three.pool.fetchval(DELETIONS) == 0
