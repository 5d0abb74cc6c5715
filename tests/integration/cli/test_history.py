"""`farrier history` and `farrier node history`: every change once, in order, however many there are, page by page or as
an export, until it is removed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from farrier.errors import ExitCode
from farrier.io.connections.pool import Connection
from farrier.model.views.history import HistoryEntry
from tests.integration.cli.conftest import Prompt, force
from tests.integration.test_web_feed import SETTLED
from tests.support import pasts, pg

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
REMOVED = """
    INSERT INTO farrier.history (kind, id, version, layer, to_value, at, cause, reason, source, controller, epoch)
    VALUES ('widget', 1, 2, 'state', 'polished', farrier.now(), 'stage', '', 'x.py:1', gen_random_uuid(), 1)
"""
# Changes beyond what one page holds.
MANY = 1200

CHANGES = """
    INSERT INTO farrier.history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause, reason,
                                 source, controller, epoch)
    SELECT 'node', n.id, 1 + v, 'status', 'active', 'offline', farrier.now() - interval '1 h' + v * interval '1 ms', 90,
           'timer', 'silent', 'x.py:1', gen_random_uuid(), 1
      FROM farrier.nodes n, generate_series(1, $1::integer) v
"""


@pytest.fixture
async def everything(conn: Connection) -> list[HistoryEntry]:
    """A history of more than one page, oldest entries first."""
    await pasts.make(conn, seed=11, versions=200, began=BEGAN)
    return sorted(await pasts.table(conn), key=pasts.by_time)


def read(lines: list[dict[str, Any]]) -> list[HistoryEntry]:
    """The entries in printed lines, each of which has its key."""
    found = []
    for line in lines:
        key = line.pop("key")
        past = msgspec.convert(line, HistoryEntry)
        assert key == past.key.text
        found.append(past)
    return found


async def test_an_export_has_every_entry_of_the_table(farrier: Prompt, everything: list[HistoryEntry]) -> None:
    said = await farrier("history", "export")
    assert read(said.lines) == everything
    assert said.err == f"{len(everything)} changes; for later entries: --after {everything[-1].key.text}\n"


async def test_an_export_continues_after_a_key_until_a_time(farrier: Prompt, everything: list[HistoryEntry]) -> None:
    until = (BEGAN + timedelta(minutes=70)).isoformat()
    some = (await farrier("history", "export", "--after", everything[300].key.text, "--until", until)).lines
    assert read(some) == [past for past in everything[301:] if past.at < BEGAN + timedelta(minutes=70)]


async def test_an_export_that_finds_nothing_repeats_the_key_it_was_given(
    farrier: Prompt, everything: list[HistoryEntry]
) -> None:
    key = everything[-1].key.text
    said = await farrier("history", "export", "--after", key)
    assert said.out == ""
    assert key in said.err


async def test_an_export_leaves_out_changes_that_an_older_change_may_still_precede(
    farrier: Prompt, conn: Connection, db: pg.Database
) -> None:
    async with conn.transaction():
        await conn.execute("SELECT farrier.register_node('slow')")
        await farrier("node", "add", "fast")
        await db.advance(SETTLED)
        for until in ((), ("--until", "0s")):
            assert (await farrier("history", "export", *until)).out == ""
    assert [change["name"] for change in (await farrier("history", "export")).lines] == ["slow"] * 3 + ["fast"] * 3
    await farrier("node", "add", "last")
    assert len((await farrier("history", "export")).lines) == 6


async def test_an_export_accepts_the_filters_of_a_list(farrier: Prompt, everything: list[HistoryEntry]) -> None:
    narrow = ("--resource", "node/gpu-2", "--layer", "status", "--cause", "timer")
    of_one = [past for past in everything if past.name == "gpu-2" and past.layer == "status"]
    expected = [past for past in of_one if past.cause.startswith("timer")]
    assert expected
    assert read((await farrier("history", "export", *narrow)).lines) == expected
    assert read((await farrier("history", "list", *narrow, "--limit", 1000, "--json")).json) == expected[::-1]
    assert read((await farrier("node", "history", "gpu-2", *narrow[2:], "--all", "--json")).json) == expected


async def test_a_list_begins_with_the_newest_and_prints_the_key_of_the_next_page(
    farrier: Prompt, everything: list[HistoryEntry]
) -> None:
    first = await farrier("history", "list", "--limit", 3, "--json")
    assert read(first.json) == everything[:-4:-1]
    key = first.err.split()[-1]
    second = await farrier("history", "list", "--limit", 3, "--after", key, "--json")
    assert read(second.json) == everything[-4:-7:-1]
    table = await farrier("history", "list", "--limit", 3)
    assert table.out.splitlines()[0].split()[:2] == ["AT", "NAME"]
    assert len(table.out.splitlines()) == 4


@pytest.mark.parametrize("words", [("history", "list", "--kind", "ib_partition"), ("node", "history", "--all")])
async def test_an_empty_history_is_reported_and_is_an_empty_array_in_json(
    farrier: Prompt, words: tuple[str, ...]
) -> None:
    said = await farrier(*words)
    assert (said.out, said.err) == ("", "no history entry matches\n")
    said = await farrier(*words, "--json")
    assert (said.out, said.err) == ("[]\n", "")


async def test_history_includes_regions_and_names_the_client_of_an_intent(
    farrier: Prompt, everything: list[HistoryEntry]
) -> None:
    region = read(
        (await farrier("history", "list", "--resource", f"maas_region/{pasts.SITE}", "--limit", 1000, "--json")).json
    )
    assert region == [past for past in everything if past.kind == "maas_region"][::-1]
    asked = (await farrier("history", "list", "--by", "ann", "--limit", 1)).out
    assert "by ann" in asked


async def test_old_history_is_counted_and_then_removed(
    farrier: Prompt, everything: list[HistoryEntry], conn: Connection
) -> None:
    counted = (await farrier("history", "prune", "--older-than", "2d", "--dry-run")).out
    assert "would be removed" in counted
    assert len(await pasts.table(conn)) == len(everything)
    done = (await farrier("history", "prune", "--older-than", "2d")).out
    assert done.split()[0] == counted.split()[0]
    left = await pasts.table(conn)
    assert 0 < len(left) == len(everything) - int(done.split()[0])


async def test_a_filter_that_no_change_can_match_is_a_usage_error_with_the_nearest(farrier: Prompt) -> None:
    await farrier("node", "add", "gpu-1")
    for words, text in (
        (("history", "list", "--to", "activ"), "to: no state is named 'activ'; did you mean 'active'?"),
        (("history", "export", "--from", "quarantine"), "from: no state is named 'quarantine'"),
        (("history", "list", "--layer", "statsu"), "layer: no layer is named 'statsu'; did you mean 'status'?"),
        (("history", "list", "--kind", "nods"), "kind: no kind is named 'nods'; did you mean 'node'?"),
        (("history", "list", "--kind", "ib_partition", "--to", "active"), "to: no state is named 'active'"),
        (("node", "history", "gpu-1", "--layer", "management", "--to", "active"), "to: no state is named 'active'"),
        (("history", "list", "--follow", "--to", "activ"), "to: no state is named 'activ'"),
        (("history", "list", "--after", "1.1.1.node.status", "--to", "activ"), "to: no state is named 'activ'"),
        (("history", "list", "--resource", "node/gpu-1", "--kind", "nods"), "kind: no kind is named 'nods'"),
        (("resource", "history", "nods", "gpu-1"), "unknown kind 'nods'"),
        (("history", "list", "--follow", "--until", "1h"), "omit --until"),
        (("history", "list", "--follow", "--after", "1.1.1.node.status"), "leave out --after"),
    ):
        assert text in (await farrier(*words, ends=ExitCode.USAGE)).err.splitlines()[0]


async def test_filters_accept_values_of_details_and_stages(farrier: Prompt) -> None:
    for words in (("--layer", "details.site", "--to", "ams1"), ("--to", "wait_for_ready"), ("--from", "running")):
        assert (await farrier("history", "list", *words)).err == "no history entry matches\n"


async def test_the_history_of_a_removed_kind_can_be_read(farrier: Prompt, db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute(REMOVED)
    (line,) = (await farrier("history", "list", "--kind", "widget", "--to", "polished", "--json")).json
    assert (line["kind"], line["to"]) == ("widget", "polished")


@pytest.fixture
async def past(farrier: Prompt, db: pg.Database) -> Prompt:
    """Runs commands, on a database with two nodes, each with more history than one page holds."""
    await db.advance(-timedelta(hours=2))
    for name in ("gpu-2", "gpu-1"):
        await farrier("node", "add", name)
    await db.advance(timedelta(hours=2))
    async with db.connect() as conn:
        await conn.execute(CHANGES, MANY)
    return farrier


async def test_the_history_of_all_nodes_is_one_array_with_each_change_once_in_order_of_time(past: Prompt) -> None:
    told = (await past("node", "history", "--all", "--json")).json
    keys = [(change["at"], change["id"], change["version"], change["layer"]) for change in told]
    assert len(keys) == len(set(keys)) == 2 * (MANY + 3)  # a registration adds three entries, one for each layer
    assert keys == sorted(keys)
    assert (told[-1]["from"], told[-1]["to"], told[-1]["seconds_in_source"]) == ("active", "offline", 90)
    assert {"name", "at", "cause", "reason", "source", "controller"} < set(told[-1])


async def test_the_newest_changes_of_a_node_are_printed_oldest_first(past: Prompt) -> None:
    versions = [change["version"] for change in (await past("node", "history", "gpu-1", "--limit", 3, "--json")).json]
    assert versions == [MANY - 1, MANY, MANY + 1]


async def test_the_whole_history_of_one_node_contains_no_other_node(past: Prompt) -> None:
    told = (await past("node", "history", "gpu-1", "--all", "--json")).json
    assert len(told) == MANY + 3
    assert {change["name"] for change in told} == {"gpu-1"}
    assert [change["at"] for change in told] == sorted(change["at"] for change in told)


async def test_history_is_filtered_by_layer_and_age(past: Prompt, db: pg.Database) -> None:
    layers = (await past("node", "history", "gpu-1", "--layer", "management", "--json")).json
    assert [change["to"] for change in layers] == ["unmanaged"]
    assert len((await past("node", "history", "--all", "--since", "90m", "--json")).json) == 2 * MANY
    moment = (await db.now() - timedelta(minutes=90)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert len((await past("node", "history", "--all", "--since", moment, "--json")).json) == 2 * MANY
    assert (await past("node", "history", "--all", "--since", "1m", "--json")).json == []


async def test_the_table_has_source_target_duration_and_reason(past: Prompt) -> None:
    heading, line = (await past("node", "history", "gpu-1", "--limit", 1)).out.splitlines()
    assert heading.split() == ["AT", "NAME", "LAYER", "FROM", "TO", "AFTER", "CAUSE", "REASON", "SOURCE"]
    assert line.split()[2:] == ["gpu-1", "status", "active", "offline", "1m", "30s", "timer", "silent", "x.py:1"]


async def test_history_without_a_node_requires_all(farrier: Prompt) -> None:
    assert "give a name, or --all" in (await farrier("node", "history", ends=ExitCode.USAGE)).err


async def test_a_deleted_node_keeps_its_history_under_name_and_id(farrier: Prompt, db: pg.Database) -> None:
    first = (await farrier("node", "add", "gpu-1", "--json")).json["id"]
    await force(db, "UPDATE farrier.nodes SET status = 'deleted'")
    assert {change["id"] for change in (await farrier("node", "history", "gpu-1", "--json")).json} == {first}
    second = (await farrier("node", "add", "gpu-1", "--json")).json["id"]
    assert {change["id"] for change in (await farrier("node", "history", "gpu-1", "--json")).json} == {second}
    assert {change["id"] for change in (await farrier("node", "history", first, "--json")).json} == {first}
