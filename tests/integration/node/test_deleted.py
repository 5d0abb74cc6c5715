"""A deleted node keeps its name and its history, and no data that identify its machine or give access to it."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from farrier.io.queries.lists import PostgresQueries
from farrier.model.machine.bmc import BmcError, BmcFailure, BmcReading, BmcTarget, PowerState
from farrier.model.node.snapshot import TaskType
from tests.support.fake_bmc import READING
from tests.support.site import FINISH, MINUTE, Machine, Site

OTHER, ASSET = "SN-OF-ANOTHER", "ASSET-4711"
ADDRESS, CREDENTIAL, MAC = "https://10.77.0.1", "env:BMC_OF_THE_DEPARTED", "02:77:00:00:00:01"
STAGE = "SELECT stage FROM farrier.node_decommissions WHERE node_id = $1 ORDER BY id DESC LIMIT 1"
# All tables and views except history and except the logins that the login cap needs for five minutes.
EVERYWHERE = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
     WHERE s.nspname = 'farrier' AND c.relkind IN ('r', 'v') AND c.relname NOT IN ('history', 'bmc_logins') ORDER BY 1
"""


async def refused_for_another_machine(machine: Machine) -> None:
    """Have an intent rejected because another machine is behind the address; the reason names that machine."""
    bmc = machine.site.bmc
    bmc.script = bmc.read_script = lambda _target: replace(READING, serial=OTHER, power=PowerState.OFF)
    await machine.site.wait(6 * MINUTE)
    bmc.script = bmc.read_script = lambda _target: READING
    answer = await machine.ask("set_power", power="off")
    assert answer.status == "rejected" and OTHER in (answer.reason or "")
    await machine.site.wait(6 * MINUTE)


async def with_everything(site: Site) -> Machine:
    """A node in service with all details, and with texts of failures that name its machine."""
    token = str(uuid4())
    machine = await site.register(
        bmc_address=ADDRESS, bmc_credential=CREDENTIAL, macs=[MAC], bootstrap_token=token, maas_id="abc123"
    )
    assert (await machine.look())["management"] == "manageable"
    await refused_for_another_machine(machine)
    await (await machine.enroll(token)).beat()
    await machine.asked("set_bmc", address=ADDRESS, credential=CREDENTIAL)
    await machine.asked("set", macs=[MAC], labels={"asset": ASSET, "rack": "7"})
    await site.conn.execute("SELECT farrier.set_ib_ports($1, '{0x0002c90300a1b2c3}')", machine.name)
    await site.settled()
    assert (await machine.state())[0] == "active"
    return machine


async def report(machine: Machine, type_: TaskType, *, succeeded: bool = True) -> None:
    """End a task with a result that names the machine."""
    lease = await machine.claim(type_)
    assert lease is not None
    said = json.dumps({"log": f"{type_} of {OTHER}", "error": f"{OTHER} does not answer"})
    await machine.site.conn.execute(FINISH, machine.name, lease.task, lease.token, machine.key, succeeded, said)
    await machine.site.settled()


async def removed(site: Site) -> Machine:
    machine = await with_everything(site)
    await machine.asked("drain")
    await report(machine, TaskType.DRAIN)
    await machine.asked("remove")
    await report(machine, TaskType.UNINSTALL)
    return machine


async def deleted_unseen(site: Site) -> Machine:
    """A deleted node that never was in service."""
    machine = await site.register(
        bmc_address=ADDRESS, bmc_credential=CREDENTIAL, macs=[MAC], bootstrap_token=str(uuid4())
    )
    await machine.asked("set_bmc", address=ADDRESS, credential=CREDENTIAL)
    return await machine.asked("delete")


async def adopted_as_another(site: Site) -> Machine:
    """A deleted node whose adoption found another machine behind its address."""
    machine = await site.register(bmc_address=ADDRESS, bmc_credential=CREDENTIAL, macs=[MAC], agentless=True)
    await machine.asked("set", labels={"asset": ASSET})
    site.bmc.script = lambda _target: replace(READING, serial=OTHER)
    await machine.asked("adopt")
    kept = {text.partition(":")[0] for text in await traces(site) if text.endswith(OTHER)}
    assert kept >= {"node_onboardings", "nodes"}, "the failure names the machine"
    await machine.asked("cancel")
    return await machine.asked("delete")


async def traces(site: Site) -> list[str]:
    """The tables and views that contain data of the machine, each with what it contains."""
    assert READING.serial and READING.uuid
    of_bmc = [ADDRESS, "10.77.0.1", CREDENTIAL, MAC, READING.serial, READING.uuid, "0002c90300a1b2c3", *READING.macs]
    sought = [*of_bmc, OTHER, ASSET]
    found = []
    for row in await site.conn.fetch(EVERYWHERE):
        for said in await site.conn.fetch(f"SELECT x::text AS said FROM farrier.{row['relname']} x"):
            found += [f"{row['relname']}: {text}" for text in sought if text.lower() in said["said"].lower()]
    return found


@pytest.mark.parametrize("path", [removed, deleted_unseen, adopted_as_another])
async def test_no_table_or_view_keeps_data_that_identify_the_machine_or_give_access_to_it(
    site: Site, path: Any
) -> None:
    machine = await path(site)
    assert (await machine.look())["status"] == "deleted"
    assert await site.conn.fetchval("SELECT name FROM farrier.nodes") == machine.name
    assert await traces(site) == []


async def test_the_search_for_traces_finds_those_of_a_node_in_service(site: Site) -> None:
    await with_everything(site)
    seen = {text.partition(":")[0] for text in await traces(site)}
    assert seen >= {"nodes", "node_macs", "node_ib_ports", "intents", "node_lifecycle"}


async def test_the_search_for_traces_finds_those_of_a_task(site: Site) -> None:
    machine = await with_everything(site)
    await machine.asked("drain")
    await report(machine, TaskType.DRAIN)
    assert "node_tasks" in {text.partition(":")[0] for text in await traces(site)}


async def test_data_of_a_deleted_node_are_removed_even_after_an_update_by_hand(site: Site) -> None:
    """A trigger removes the data, even from a row that is restored or edited by hand."""
    machine = await site.removing()
    await site.conn.execute(
        "UPDATE farrier.nodes SET bmc_address = $2, bmc_credential = $3 WHERE id = $1", machine.id, ADDRESS, CREDENTIAL
    )
    await machine.finish(TaskType.UNINSTALL)
    assert (await machine.look())["status"] == "deleted"
    await site.conn.execute("UPDATE farrier.nodes SET bmc_address = $2 WHERE id = $1", machine.id, ADDRESS)
    assert await traces(site) == []


async def test_no_view_shows_a_management_state_of_a_deleted_node(site: Site) -> None:
    machine = await removed(site)
    row = await site.conn.fetchrow("SELECT * FROM farrier.node_lifecycle WHERE id = $1", machine.id)
    assert row is not None and row["name"] == machine.name
    shown = {
        key: value for key, value in row.items() if key.startswith(("management", "bmc", "power", "desired_power"))
    }
    assert set(shown.values()) == {None}, shown
    assert await site.conn.fetch("SELECT FROM farrier.node_inventory WHERE id = $1", machine.id) == []
    page = await PostgresQueries(site.pool).node(str(machine.id))
    assert page.rows[0].management is None and page.rows[0].bmc_credential is None


async def test_failed_logins_of_a_deleted_node_are_kept_for_five_minutes_and_then_removed(site: Site) -> None:
    def refuse(target: BmcTarget) -> BmcReading:
        if "10.77" in target.address:
            raise BmcError(BmcFailure.AUTH, "refused", credential_version="v1")
        return READING

    site.bmc.script = site.bmc.read_script = refuse
    machine = await site.register(bmc_address=ADDRESS, bmc_credential=CREDENTIAL)
    await machine.asked("delete")
    kept = "SELECT l::text FROM farrier.bmc_logins l"
    (row,) = await site.conn.fetch(kept)
    assert "10.77.0.1" in row[0] and CREDENTIAL not in row[0]
    await site.wait(6 * MINUTE)
    await site.with_bmc()
    assert await site.conn.fetch(kept) == []


# --- stage cleanup_secrets


async def test_cleanup_secrets_ends_when_no_table_holds_a_secret_of_the_node(site: Site) -> None:
    """The stage also removes data that are written while it runs."""
    machine = await site.removing()
    lease = await machine.claim(TaskType.UNINSTALL)
    assert lease is not None
    left = "SELECT farrier.secrets_left(node_id, id) FROM farrier.node_decommissions WHERE node_id = $1"
    assert await site.conn.fetchval(left, machine.id) is None, "it is in another stage"
    await site.conn.execute(
        """
        CREATE FUNCTION farrier.late_token() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO farrier.bootstrap_tokens (hash, node_id, expires_at)
            VALUES (farrier.digest('late'), NEW.node_id, farrier.now() + interval '1 hour');
            RETURN NULL;
        END $$;
        CREATE TRIGGER late_token AFTER UPDATE ON farrier.node_decommissions
            FOR EACH ROW WHEN (NEW.stage = 'cleanup_secrets' AND OLD.stage <> 'cleanup_secrets')
            EXECUTE FUNCTION farrier.late_token()
        """
    )
    await machine.end(lease)
    assert (await machine.look())["status"] == "deleted"
    reasons = await site.conn.fetch("SELECT reason FROM farrier.history WHERE id = $1 ORDER BY version", machine.id)
    assert any("the database has no bootstrap token" in row["reason"] for row in reasons), [
        row["reason"] for row in reasons
    ]
    assert await site.conn.fetchval(
        "SELECT revoked_at IS NOT NULL FROM farrier.bootstrap_tokens WHERE hash = farrier.digest('late')"
    )
    assert not await site.conn.fetchval("SELECT EXISTS (SELECT FROM farrier.node_agents)")


async def test_cleanup_secrets_does_not_end_while_a_table_holds_a_secret_of_the_node(site: Site) -> None:
    machine = await site.removing()
    lease = await machine.claim(TaskType.UNINSTALL)
    assert lease is not None
    await site.conn.execute(
        """
        CREATE FUNCTION farrier.stays() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
        CREATE TRIGGER stays BEFORE DELETE ON farrier.node_agents FOR EACH ROW EXECUTE FUNCTION farrier.stays()
        """
    )
    await machine.end(lease)
    assert (await machine.state())[::2] == ("removing", "cleanup_secrets")
    outcome = json.loads((await machine.look())["outcome"])
    assert "removes the agent's key" in str(outcome)
    await site.conn.execute("DROP TRIGGER stays ON farrier.node_agents")
    await site.wait(MINUTE)
    assert (await machine.look())["status"] == "deleted"
