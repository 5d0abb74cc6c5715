"""Every operation in every state: the simulated region's response and machine are those of the recorded region.

The table is 483 recorded calls. For each a machine is put into the state, called, and compared: code, type of content,
status in the answer, text of the error, status, power and owner after it. Operations that take time are compared
before the clock moves, as they were recorded. No row is excepted.
"""

from __future__ import annotations

import csv
from pathlib import Path

import httpx
import pytest

from farrier.sim.maas import ADMIN, Region, Status
from tests.support.maas_region import Caller, Form, put_into, ready

TABLE = Path(__file__).parents[1] / "data" / "maas" / "op-status-matrix.csv"
RECORDED_ID = "f6d3fg"
Row = dict[str, str]
Request = tuple[str, str, Form]


def _rows() -> dict[str, list[Row]]:
    table: dict[str, list[Row]] = {}
    with TABLE.open(newline="") as file:
        for row in csv.DictReader(file):
            table.setdefault(row["op"], []).append(row)
    return table


ROWS = _rows()
# The earlier life of the recording's machines, which matters only for the results of some operations.
NOBODYS = {Status.NEW, Status.FAILED_COMMISSIONING, Status.MISSING, Status.READY, Status.RETIRED, Status.BROKEN}
WAS_DEPLOYED = {Status.RESCUE_MODE, Status.ENTERING_RESCUE_MODE, Status.EXITING_RESCUE_MODE}
BY_LABEL = {status.label: status for status in Status}
POWER_BEFORE = {"release": "on", "abort": "on", "exit_rescue_mode": "on"}


def _request(op: str, region: Region, system_id: str) -> Request:
    machine = region.machines[system_id]
    own, interface = f"machines/{system_id}/", f"nodes/{system_id}/interfaces/{machine.interfaces[0].id}/"
    disk = f"nodes/{system_id}/blockdevices/{machine.disks[-1].id}/"
    special: dict[str, Request] = {
        "allocate(system_id)": ("POST", "machines/?op=allocate", {"system_id": system_id}),
        "release erase": ("POST", f"{own}?op=release", {"erase": "true"}),
        "PUT machine": ("PUT", own, {"description": "changed"}),
        "PUT machine power": ("PUT", own, {"power_type": "redfish", "power_parameters_power_user": "other"}),
        "PUT interface mtu": ("PUT", interface, {"mtu": "9000"}),
        "link_subnet AUTO force": (
            "POST",
            f"{interface}?op=link_subnet",
            {"mode": "AUTO", "subnet": "2", "force": "true"},
        ),
        "set_boot_disk": ("POST", f"{disk}?op=set_boot_disk", {}),
        "set_storage_layout": ("POST", f"{own}?op=set_storage_layout", {"storage_layout": "flat"}),
        "set_workload_annotations": ("POST", f"{own}?op=set_workload_annotations", {"farrier": "yes"}),
        "delete": ("DELETE", own, {}),
        "test": ("POST", f"{own}?op=test", {"testing_scripts": "probe"}),
    }
    return special.get(op) or ("POST", f"{own}?op={op}", {})


def _seen(row: Row, answer: httpx.Response, region: Region, system_id: str) -> Row:
    machine = region.machines.get(system_id)
    body = answer.json() if answer.headers["content-type"].startswith("application/json") else {}
    refused = answer.status_code >= 400 or row["op"] == "set_boot_disk"
    return {
        "op": row["op"],
        "status_before": row["status_before"],
        "http": str(answer.status_code),
        "ctype": answer.headers["content-type"].partition(";")[0],
        "status_name_in_response": body.get("status_name", ""),
        "status_after": machine.status.label if machine else "<deleted>",
        "power_after": machine.power_state if machine else "",
        "owner_after": ("owner" if machine.owner else "none") if machine else "",
        "error_body": (answer.text.replace(system_id, RECORDED_ID) if refused else ""),
    }


def test_the_recorded_table_is_complete() -> None:
    assert len(ROWS) == 21
    assert all({row["status_before"] for row in rows} == set(BY_LABEL) for rows in ROWS.values())


@pytest.mark.parametrize("op", sorted(ROWS))
async def test_in_every_state_response_and_machine_are_as_recorded(op: str) -> None:
    region = Region()
    caller = Caller(region)
    await caller.post("scripts/", name="probe", script="#!/bin/sh\n")
    differing = []
    for number, row in enumerate(ROWS[op], 1):
        system_id = await ready(region, caller, number)
        status = BY_LABEL[row["status_before"]]
        put_into(
            region.machines[system_id],
            status,
            owner=None if status in NOBODYS else ADMIN.username,
            power=POWER_BEFORE.get(op, "off"),
            previous=Status.DEPLOYED if status in WAS_DEPLOYED else Status.READY,
        )
        method, path, form = _request(op, region, system_id)
        answer = await caller.send(method, path, form)
        seen = _seen(row, answer, region, system_id)
        expected = {**row, "error_body": _compact(row["error_body"])}
        if {**seen, "error_body": _compact(seen["error_body"])} != expected:
            differing.append(
                {name: (row[name], seen[name]) for name in row if row[name] != seen[name]} | {"in": status}
            )
    assert not differing


def _compact(text: str) -> str:
    """JSON without optional white space."""
    return text.replace('": [', '":[') if text.startswith("{") else text
