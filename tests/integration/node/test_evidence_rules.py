"""Evidence that an agent or a worker reports: the database refuses what the struct refuses, in one line."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from farrier.model.node.evidence import DEVICES_MAX, Evidence, Reported
from tests.integration.node.test_beats import CLAIM, FINISH, digest_of
from tests.support.site import Site

DISK = {"kind": "disk", "serial": "S1", "result": "erased"}
FAULT = "SELECT farrier.evidence_fault($1::jsonb, 'agent of gpu-1')"


def told(*devices: Any, **fields: Any) -> dict[str, Any]:
    return {"by": "agent", "devices": list(devices), **fields}


ACCEPTED: list[Any] = [
    told(),
    told(DISK, {**DISK, "serial": "S2"}, {**DISK, "kind": "gpu"}),
    told({**DISK, "method": "blkdiscard", "samples": 9, "bad_samples": 1, "seconds": 1.5, "size": 2**60}),
    told({**DISK, "message": "two\nlines", "model": "", "seconds": 3}),
    told(*({**DISK, "serial": str(number)} for number in range(DEVICES_MAX))),
]
REFUSED: list[tuple[Any, str]] = [
    ([], "must be a JSON object"),
    ("erased", "must be a JSON object"),
    ({"by": "agent"}, "has a field devices that is missing"),
    ({"devices": []}, "has a field by that is missing"),
    ({"by": "tenant", "devices": []}, "must be one of agent, worker, region"),
    (told(DISK, script={"name": "mine"}), "has a field script that is unknown; expected: "),
    (told({**DISK, "sold": True}), "has a field sold that is unknown"),
    (told({**DISK, "kind": "tape"}), "must be one of disk, gpu, host_memory"),
    (told({**DISK, "result": "gone"}), "must be one of erased, failed"),
    (told({**DISK, "serial": ""}), "expected 1 to 200 characters"),
    (told({**DISK, "serial": "S\n1"}), "without control characters"),
    (told({**DISK, "method": "x" * 201}), "is longer than 200 characters"),
    (told({**DISK, "message": "x" * 501}), "is longer than 500 characters"),
    (told({**DISK, "message": None}), "must be a string"),
    (told({**DISK, "samples": -1}), "must be 0 or more"),
    (told({**DISK, "samples": 1.5}), "must be a whole number"),
    (told({**DISK, "size": 2**63}), "must be 9223372036854775807 or less"),
    (told({**DISK, "seconds": -0.5}), "must be 0 or more"),
    (told({**DISK, "seconds": "long"}), "must be a number"),
    (told("S1"), "must be a JSON object"),
    (told(*[DISK] * (DEVICES_MAX + 1)), "has more than 1000 elements"),
    (told(DISK, {**DISK, "result": "failed"}), "has two devices of the same kind and serial number: disk S1"),
]


async def test_struct_and_database_accept_and_refuse_the_same(site: Site) -> None:
    for value in ACCEPTED:
        msgspec.json.decode(json.dumps(value), type=Reported)
        assert await site.conn.fetchval(FAULT, json.dumps(value)) is None
    for value, text in REFUSED:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json.dumps(value), type=Reported)
        fault = await site.conn.fetchval(FAULT, json.dumps(value))
        assert text in fault and "\n" not in fault


async def test_malformed_evidence_changes_nothing_and_the_task_can_still_be_finished(site: Site) -> None:
    machine = await site.draining()
    (task,) = await site.conn.fetch(CLAIM, digest_of(machine), uuid4())
    arguments = digest_of(machine), task["task"], task["lease_token"]
    for value in (told(DISK, DISK), {"by": "region", "devices": []}, {"by": "worker", "devices": []}):
        with pytest.raises(Exception, match=r"^the evidence ") as refused:
            await site.conn.execute(FINISH, *arguments, json.dumps(value))
        assert getattr(refused.value, "sqlstate", None) == "FR400"
    assert await site.conn.fetchval("SELECT status FROM farrier.node_tasks WHERE id = $1", task["task"]) == "dispatched"
    await site.conn.execute(FINISH, *arguments, json.dumps(told(DISK)))


def test_stored_evidence_of_a_newer_release_is_read() -> None:
    newer = told({**DISK, "sold": True}, made_by="a newer release")
    assert [device.serial for device in msgspec.json.decode(json.dumps(newer), type=Evidence).devices] == ["S1"]
