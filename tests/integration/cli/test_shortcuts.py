"""`farrier segment` and `farrier partition`: `farrier resource` for one kind, with options from the kind's spec."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from farrier.errors import ExitCode
from farrier.model.kinds.spec import CREATE, KindSpec
from farrier.model.network import segment
from farrier.model.partition import partition
from tests.integration.cli.conftest import Prompt, force
from tests.support import pg, segments
from tests.support.segments import Lan

NET = ("--site", "ams", "--prefixes", "10.0.0.0/24")


@pytest.fixture
async def lan(db: pg.Database) -> AsyncIterator[Lan]:
    async with segments.opened(db) as opened:
        yield opened


@pytest.mark.parametrize(
    ("command", "spec"),
    [("segment", segment.SPEC), ("partition", partition.SPEC)],
    ids=["segment", "partition"],
)
async def test_every_action_of_a_kind_is_a_command_whose_options_are_its_parameters(
    nowhere: Prompt, command: str, spec: KindSpec
) -> None:
    for action, asked in spec.requests.items():
        said = (await nowhere(command, "add" if action == CREATE else action, "--help")).out
        for field in asked.params.__struct_fields__:
            assert f"--{field.replace('_', '-')}" in said, (action, field)
    assert CREATE not in (await nowhere(command, "--help")).out.split()


async def test_a_segment_is_made_listed_shown_and_deleted(farrier: Prompt, lan: Lan) -> None:
    made = (await farrier("segment", "add", "lan", *NET, "--prefixes", "10.1.0.0/24", "--vlan", 12, "--json")).json
    assert made["status"] == "accepted"
    (listed,) = (await farrier("segment", "list", "--json")).json
    assert listed["id"] == made["resource"]
    assert (listed["state"], listed["detail"]["vlan"]) == ("provisioning", 12)
    assert listed["detail"]["prefixes"] == ["10.0.0.0/24", "10.1.0.0/24"]
    assert "vlan=12" in (await farrier("segment", "list")).out
    await lan.settle()
    shown = (await farrier("segment", "show", "lan")).out
    assert "addresses_free" in shown
    assert "ready" in shown
    await lan.take("gpu-1")
    asked = (await farrier("segment", "delete", "lan", "--drain", "--json")).json
    assert asked["status"] == "pending"
    await lan.settle()
    assert "is deleting/drain_allocated_ips" in (await farrier("segment", "why", "lan")).out
    changes = (await farrier("segment", "history", "lan", "--json")).json
    assert [change["to"] for change in changes] == ["provisioning", "ready", "deleting/drain_allocated_ips"]
    assert changes[-1]["requested_by"], "the user who runs the command"


async def test_refusals_of_the_database_are_printed_with_its_message(farrier: Prompt, lan: Lan) -> None:
    await farrier("segment", "add", "lan", *NET)
    overlap = await farrier("segment", "add", "other", *NET, ends=ExitCode.REFUSED)
    assert "10.0.0.0/24" in overlap.err
    taken = await farrier("segment", "add", "lan", "--site", "ams", "--prefixes", "10.2.0.0/24", ends=ExitCode.REFUSED)
    assert "'lan'" in taken.err
    assert "--prefixes" in (await farrier("segment", "add", "x", "--site", "ams", ends=ExitCode.USAGE)).err
    wrong = await farrier("segment", "add", "x", "--site", "ams", "--prefixes", "10/8", ends=ExitCode.USAGE)
    assert "10/8" in wrong.err


async def test_an_update_sends_only_the_given_parameters(farrier: Prompt, lan: Lan) -> None:
    await lan.ready()
    await farrier("segment", "update", "lan", "--mtu", 9000)
    await lan.settle()
    assert (await farrier("segment", "show", "lan", "--json")).json["detail"]["mtu"] == 9000
    nothing = await farrier("segment", "update", "lan", ends=ExitCode.USAGE)
    assert "mtu" in nothing.err


async def test_addresses_are_listed_with_their_owners(farrier: Prompt, lan: Lan) -> None:
    await lan.ready()
    assert "no address of lan" in (await farrier("segment", "addresses", "lan")).err
    taken = await lan.take("gpu-1")
    (listed,) = (await farrier("segment", "addresses", "lan", "--json")).json
    assert (listed["address"], listed["owner"], listed["prefix"]) == (str(taken), "gpu-1", "10.0.0.0/24")
    assert "gpu-1" in (await farrier("segment", "addresses", "lan")).out
    await farrier("segment", "addresses", "wan", ends=ExitCode.REFUSED)


async def test_a_partition_is_made_with_a_number_of_its_pool_and_its_members_are_listed(
    farrier: Prompt, lan: Lan
) -> None:
    await lan.pool.execute("SELECT farrier.set_pool('pkey', 5, 6)")
    await farrier("partition", "add", "tenant-a", "--rate-limit", "100", "--no-ip-over-ib")
    detail = (await farrier("partition", "show", "tenant-a", "--json")).json["detail"]
    assert (detail["pkey"], detail["rate_limit"], detail["ip_over_ib"]) == (5, "100", False)
    assert "tenant-a has no members" in (await farrier("partition", "members", "tenant-a")).err
    await lan.pool.execute("SELECT farrier.join_partition('tenant-a', '0002c903000e0b72', 'gpu-1')")
    (listed,) = (await farrier("partition", "members", "tenant-a", "--json")).json
    assert (listed["owner"], listed["state"]) == ("gpu-1", "pending")
    assert "gpu-1" in (await farrier("partition", "members", "tenant-a")).out
    choice = await farrier("partition", "add", "tenant-b", "--rate-limit", "7", ends=ExitCode.USAGE)
    assert "one of" in choice.err


async def test_a_number_may_be_given_and_is_shown_as_the_fabric_writes_it(farrier: Prompt, lan: Lan) -> None:
    await lan.pool.execute("SELECT farrier.set_pool('pkey', 1, 100)")
    await farrier("partition", "add", "tenant-a", "--pkey", "0x1F")
    assert "pkey_hex=0x1f" in (await farrier("partition", "list")).out
    detail = (await farrier("partition", "show", "tenant-a", "--json")).json["detail"]
    assert (detail["pkey"], detail["pkey_hex"]) == (31, "0x1f")
    wrong = await farrier("partition", "add", "tenant-b", "--pkey", "1f", ends=ExitCode.USAGE)
    assert "0x" in wrong.err


async def test_ended_segments_and_partitions_have_no_addresses_and_members(farrier: Prompt, lan: Lan) -> None:
    await lan.pool.execute("SELECT farrier.set_pool('pkey', 5, 9)")
    await lan.ready()
    await lan.take("gpu-1")
    await farrier("partition", "add", "tenant-a")
    await lan.pool.execute("SELECT farrier.join_partition('tenant-a', '0002c903000e0b72', 'gpu-1')")
    for table in ("network_segments", "ib_partitions"):
        await force(lan.db, f"UPDATE farrier.{table} SET state = 'gone', ended_at = farrier.now()")
    assert (await farrier("partition", "members", "tenant-a", "--json")).json == []
    assert (await farrier("segment", "addresses", "lan", "--json")).json == []
    await farrier("partition", "add", "tenant-b")
    twice = await farrier("partition", "add", "tenant-b", ends=ExitCode.REFUSED)
    assert "ib partition 'tenant-b' already exists" in twice.err
    unknown = await farrier("partition", "members", "tenant-c", ends=ExitCode.REFUSED)
    assert "no ib partition is named 'tenant-c'\nhint: list the resources of kind ib_partition" in unknown.err


async def test_the_readers_role_may_list_and_may_not_insert_intents(farrier: Prompt, lan: Lan) -> None:
    await lan.ready()
    await lan.pool.execute("SELECT farrier.set_pool('pkey', 5, 6)")
    await farrier("partition", "add", "tenant-a")
    reader = Prompt(FARRIER_DATABASE_DSN=f"{lan.db.dsn}&options=-c%20role%3Dfarrier_reader")
    for command in (["list"], ["show", "lan"], ["why", "lan"], ["history", "lan"]):
        assert "lan" in (await reader("segment", *command)).out, command
    assert "network_segment" in (await reader("kind", "list")).out
    await reader("segment", "addresses", "lan")
    await reader("partition", "members", "tenant-a")
    await reader("sla", "breaches")
    assert "permission denied" in (await reader("segment", "delete", "lan", ends=ExitCode.REFUSED)).err


async def test_the_intents_role_may_insert_intents_and_see_their_results(lan: Lan) -> None:
    asking = Prompt(FARRIER_DATABASE_DSN=f"{lan.db.dsn}&options=-c%20role%3Dfarrier_intents")
    await asking("segment", "add", "lan", *NET)
    await lan.settle()
    assert "ready" in (await asking("segment", "list")).out
    await asking("segment", "addresses", "lan")
    await asking("segment", "delete", "lan")
    await lan.settle()
    assert "lan" in (await asking("segment", "list", "--ended")).out
    late = await asking("resource", "intent", "network_segment", "lan", "delete", ends=ExitCode.REFUSED)
    assert "has ended" in late.err or "no network segment" in late.err
