"""Changes: sent on the basis of a fresh reading, and reported by errors that contain no user data."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import anyio
import httpx
import msgspec
import pytest
from typing_extensions import override

from farrier.model.maas import changes
from farrier.model.maas.reading import MaasError, MaasFailure, Machine
from farrier.services.maas.client import FRESH
from farrier.services.maas.service import CONCURRENCY
from farrier.sim.maas import OPERATOR, Region, RegionTransport, Status
from tests.support.maas import DEPLOY, NEW, commissioned, world_of

MACHINE = Machine(system_id="abc123", hostname="gpu001", status=4, read_at=1000.0)


async def test_a_reading_that_grew_old_while_waiting_for_a_slot_is_repeated(region: Region) -> None:
    gate = anyio.Event()

    class Slow(RegionTransport):
        @override
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/version/"):
                await gate.wait()
            return await super().handle_async_request(request)

    refused: list[MaasFailure] = []

    async def deploy() -> None:
        try:
            await world.client.do(machine, DEPLOY)
        except MaasError as error:
            refused.append(error.failure)

    async with world_of(Slow(region)) as world:
        machine = await commissioned(world, region)
        async with anyio.create_task_group() as callers:
            for _ in range(CONCURRENCY):
                callers.start_soon(world.client.version)
            await anyio.wait_all_tasks_blocked()
            callers.start_soon(deploy)
            await anyio.wait_all_tasks_blocked()
            region.machines[machine.system_id].owner = OPERATOR.username
            world.clock.advance(FRESH + timedelta(seconds=1))
            gate.set()
    assert refused == [MaasFailure.CONFLICT]
    assert region.machines[machine.system_id].status == Status.READY


async def test_concurrent_changes_that_read_first_do_not_deadlock(region: Region) -> None:
    """Each change reads in the slot that it holds. If each needed a second slot, concurrent changes would deadlock."""
    async with world_of(RegionTransport(region)) as world:
        machines = []
        for number in range(2 * CONCURRENCY):
            new = msgspec.structs.replace(NEW, hostname=f"n{number}", mac_addresses=(f"52:54:00:00:01:0{number}",))
            machines.append(await world.client.create(new))
        world.clock.advance(FRESH + timedelta(seconds=1))
        async with anyio.create_task_group() as callers:
            for machine in machines:
                callers.start_soon(world.client.do, machine, changes.UpdateMachine(description="mine"))
    assert {machine.description for machine in region.machines.values()} == {"mine"}


class Quoting(httpx.AsyncBaseTransport):
    """A region that refuses every request with this text."""

    def __init__(self, words: str) -> None:
        self._words = words

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(400, stream=httpx.ByteStream(self._words.encode()))


TOKEN = "7f" * 32
USER_DATA = "#cloud-config\nhostname: gpu-1\n" + "".join(f"line_{n}: {n}\n" for n in range(4000)) + f"token: {TOKEN}\n"
ENCODED = base64.b64encode(USER_DATA.encode()).decode()
WHERE = len(ENCODED) - 96


@pytest.mark.parametrize(
    "quote",
    [
        f"bad user_data: {ENCODED}",
        f"bad user_data: {USER_DATA}",
        f"bad user_data: {ENCODED[:200]}...",
        f"... {ENCODED[WHERE:]}",
        f"bad user_data at: token: {TOKEN}",
        json.dumps({"user_data": [f"not YAML: {USER_DATA}"]}),
        json.dumps({"user_data": [f"not YAML: {USER_DATA[-90:]}"]}),
    ],
    ids=["all", "decoded", "the start", "the end", "a line", "a field", "the end in a field"],
)
async def test_no_error_contains_user_data_or_the_token_in_it(quote: str) -> None:
    async with world_of(Quoting(quote)) as world:
        with pytest.raises(MaasError) as refused:
            await world.client.do(MACHINE, changes.Deploy(user_data=USER_DATA, comment="c"))
    shown = f"{refused.value} {refused.value.fields}"
    pieces = [TOKEN[:16], ENCODED[WHERE : WHERE + 24], ENCODED[-60:-36], ENCODED[100:124], "line_17: 17"]
    assert [piece for piece in pieces if piece in shown] == []
    assert "***" in refused.value.detail
