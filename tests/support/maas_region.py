"""A simulated MAAS region as its own suites use it: signed requests by hand, and machines put into any state.

Used by `tests/contract/test_maas_{matrix,samples,region,protocol,faults}`. Requests go through the transport in this
process, each with a header of its own, so that tests can send wrong keys, nonces and times.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

import httpx

from farrier.sim.maas import ADMIN, Region, RegionTransport, Status, User
from farrier.sim.maas.records import Machine, ScriptStatus, SetType

ROOT = "http://maas.test/MAAS/api/2.0/"
Form = Mapping[str, str | Sequence[str]]


def signed(key: str = ADMIN.key, *, nonce: str | None = None, age: float = 0, secret: str | None = None) -> str:
    """An Authorization header whose timestamp is `age` seconds old."""
    consumer, token, own = key.split(":")
    fields = {
        "oauth_nonce": nonce or secrets.token_hex(8),
        "oauth_timestamp": str(int(time.time() - age)),
        "oauth_version": "1.0",
        "oauth_signature_method": "PLAINTEXT",
        "oauth_consumer_key": consumer,
        "oauth_token": token,
        "oauth_signature": f"%26{secret or own}",
    }
    return "OAuth " + ", ".join(f'{name}="{value}"' for name, value in fields.items())


class Caller:
    """A user's client."""

    def __init__(self, region: Region, user: User = ADMIN) -> None:
        self._client = httpx.AsyncClient(transport=RegionTransport(region), base_url=ROOT)
        self._user = user

    async def send(self, method: str, path: str, form: Form | None = None) -> httpx.Response:
        return await self._client.request(method, path, data=form, headers={"Authorization": signed(self._user.key)})

    async def get(self, path: str) -> httpx.Response:
        return await self.send("GET", path)

    async def post(self, path: str, **form: str | Sequence[str]) -> httpx.Response:
        return await self.send("POST", path, form)


async def created(caller: Caller, number: int = 1, **more: str) -> str:
    """A machine with a BMC, in New; its system id."""
    form = {
        "hostname": f"node{number}",
        "mac_addresses": f"52:54:00:00:01:{number:02x}",
        "power_type": "redfish",
        "power_parameters_power_address": f"10.0.1.{number}",
        "power_parameters_power_user": "root",
        "power_parameters_power_pass": "x",
        "commission": "false",
        **more,
    }
    answer = await caller.post("machines/", **form)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["system_id"])


async def ready(region: Region, caller: Caller, number: int = 1) -> str:
    """A machine that passed commissioning; its system id."""
    system_id = await created(caller, number, commission="true")
    region.advance(region.durations.commission + timedelta(minutes=1))
    assert region.machines[system_id].status is Status.READY
    return system_id


def put_into(machine: Machine, status: Status, *, owner: str | None, power: str, previous: Status) -> None:
    """Set the status as an administrator of the database would: no rule is checked, and no event is written."""
    machine.status, machine.owner, machine.power_state, machine.previous_status = status, owner, power, previous
    machine.locked = False
    machine.epoch += 1
    commissioned = machine.newest_set(SetType.COMMISSIONING)
    assert commissioned is not None
    commissioned.status = ScriptStatus.PASSED
