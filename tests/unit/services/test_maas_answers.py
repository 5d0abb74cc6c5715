"""Recorded responses of a real region are parsed; contradictory ones are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farrier.model.maas.reading import Event, Interface, MaasUser, PowerAddress
from farrier.model.maas.scripts import ScriptSet
from farrier.services.http.messages import Garbled, HttpResponse
from farrier.services.maas import answers

RECORDED = Path(__file__).parents[2] / "data" / "maas"
STATES = {
    "allocated": "allocated",
    "commissioning": "commissioning",
    "deployed": "deployed",
    "deploying": "deploying",
    "failed-deployment": "failed",
    "new": "new",
    "ready": "ready",
    "releasing": "other",
}


def recorded(name: str) -> tuple[HttpResponse, Any]:
    body = (RECORDED / f"{name}.json").read_bytes()
    return HttpResponse(status=200, body=body, content_type="application/json; charset=utf-8"), json.loads(body)


@pytest.mark.parametrize("name", STATES)
def test_a_recorded_machine_is_parsed(name: str) -> None:
    answer, said = recorded(f"machine-{name}")
    machine = answers.machine(said["system_id"], answer)
    assert machine.state == STATES[name]
    for field in ("status", "owner", "hostname", "locked", "netboot", "power_state", "error_description", "osystem"):
        assert getattr(machine, field) == said[field]
    assert [one.name for one in machine.interface_set] == [one["name"] for one in said["interface_set"]]
    assert [one.model for one in machine.blockdevice_set] == [one["model"] for one in said["blockdevice_set"]]
    assert (machine.last_sync is None) == (said["last_sync"] is None)


def test_recorded_lists_are_parsed() -> None:
    answer, said = recorded("interfaces")
    interfaces = answers.shaped(tuple[Interface, ...])(answer)
    assert [[link.mode for link in one.links] for one in interfaces] == [
        [link["mode"] for link in one["links"]] for one in said
    ]
    answer, said = recorded("results")
    rounds = answers.shaped(tuple[ScriptSet, ...])(answer)
    assert [one.status_name for one in rounds] == ["Aborted", "Failed"]
    answer, said = recorded("whoami")
    assert answers.shaped(MaasUser)(answer) == MaasUser(username="admin", is_superuser=True)


def test_recorded_power_parameters_are_read_without_their_secret() -> None:
    answer, said = recorded("power-parameters")
    ((system_id, given),) = said.items()
    found = answers.shaped(dict[str, PowerAddress])(answer)
    where = PowerAddress(**{name: given[name] for name in ("power_address", "power_user", "node_id")})
    assert found == {system_id: where}
    assert not hasattr(found[system_id], "power_pass")


def test_recorded_events_come_oldest_first_with_their_time() -> None:
    answer, said = recorded("events-query")
    events = answers.events(answer)
    assert [event.id for event in events] == sorted(one["id"] for one in said["events"])
    assert all(event.at is not None for event in events)


def test_an_event_that_is_listed_twice_is_returned_once() -> None:
    one = {"id": 5, "node": "abc123", "type": "Ready", "level": "INFO"}
    answer = HttpResponse(status=200, body=json.dumps({"events": [one, one]}).encode())
    assert answers.events(answer) == (Event(id=5, node="abc123", type="Ready"),)


def test_a_change_may_be_answered_with_text_or_json() -> None:
    answers.done(HttpResponse(status=200, body=b"OK", content_type="text/plain"))
    answers.done(HttpResponse(status=204, body=b""))
    answers.done(HttpResponse(status=200, body=b"null", content_type="application/json"))
    with pytest.raises(Garbled):
        answers.done(HttpResponse(status=200, body=b'{"system', content_type="application/json"))
