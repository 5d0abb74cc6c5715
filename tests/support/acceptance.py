"""Rows of an acceptance table: what Ironic and Metal3 do with a node and its BMC, and what farrier does.

A scenario is decorated with the rows that it proves: `theirs` is what the other controller does, `ours` what the
scenario asserts, and `better` the reason for an intended difference. `NOT_HERE` gives the reason for each row that has
no equivalent in farrier.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from farrier.model.machine.bmc import BmcReading, BmcTarget
from tests.support import pg
from tests.support import site as sites
from tests.support.fake_bmc import reading
from tests.support.site import Machine, Site

Scenario: TypeAlias = Callable[[Site], Awaitable[None]]
OnDatabase: TypeAlias = Callable[[pg.Database], Awaitable[None]]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table. If `better` is empty, farrier does the same as the other controller."""

    id: str
    theirs: str
    ours: str
    better: str = ""
    run: OnDatabase


ROWS: dict[str, Row] = {}


def row(*ids: str, theirs: str, ours: str, better: str = "") -> Callable[[Scenario], Scenario]:
    """Record that the decorated scenario proves these rows. The scenario runs on its own site."""

    def note(scenario: Scenario) -> Scenario:
        async def run(db: pg.Database) -> None:
            async with sites.opened(db) as site:
                await scenario(site)

        _add(ids, theirs, ours, better, run)
        return scenario

    return note


def row_of_a_crash(*ids: str, theirs: str, ours: str, better: str = "") -> Callable[[OnDatabase], OnDatabase]:
    """As `row`, for a scenario in which processes die. The scenario opens its sites itself."""

    def note(scenario: OnDatabase) -> OnDatabase:
        _add(ids, theirs, ours, better, scenario)
        return scenario

    return note


def _add(ids: tuple[str, ...], theirs: str, ours: str, better: str, run: OnDatabase) -> None:
    for id_ in ids:
        assert id_ not in ROWS, f"row {id_} is proven twice"
        ROWS[id_] = Row(id=id_, theirs=theirs, ours=ours, better=better, run=run)


NOT_HERE = {
    "A07": "farrier has no pool of workers that could be full: an intent is a row, and waits",
    "B09": "the database checks the version of the intent API at the INSERT, proven in test_intents",
    "C03": "another service keeps allocations",
    "C05": "no flag protects a node from delete; a node that was in service cannot be deleted",
    "C06": "as C05",
    "C20": "farrier has no automatic maintenance that could overwrite the maintenance of an operator",
    "C25": "a row is locked for the length of a COMMIT; leases are proven in integration/controller",
    "C26": "as C25",
    "C27": "as C25",
    "C28": "as C25",
    "C31": "as C25",
    "C33": "as C25",
    "C34": "as A07",
    "D26": "no intent changes a single MAC address",
    "D27": "a node is registered with no second controller",
    "D28": "as D27",
    "E02": "a node of farrier has no image",
    "E03": "as E02",
    "E05": "no flag could be set later: the mode of an onboarding is set once",
    "E12": "no other controller sets a maintenance flag",
    "F01": "verifications are not limited in number: each takes a few requests to one BMC",
    "F02": "as F01",
    "F03": "as F01",
    "F04": "as F01",
    "F05": "as F01",
    "F08": "farrier has no detached nodes: clear_bmc removes the BMC and does not change the status",
    "F09": "as F08",
    "F11": "as F08",
    "F12": "as F08",
    "F14": "MAAS switches the power off in a decommission",
    "F24": "MAAS provisions the machine",
    "F27": "as F24",
}


def reads(site: Site, **changes: Any) -> None:
    """From now on every call to a BMC returns the usual reading with these changes."""

    def script(target: BmcTarget) -> BmcReading:
        return msgspec.structs.replace(reading(target), **changes)

    site.bmc.script = site.bmc.read_script = script


async def layers(machine: Machine) -> tuple[str, str]:
    found = await machine.look()
    return found["status"], found["management"]


async def refused(machine: Machine, action: str, **params: Any) -> str:
    """Insert an intent that is rejected, and return the reason."""
    answer = await machine.ask(action, **params)
    assert answer.status == "rejected", answer
    return answer.reason or ""


def called(site: Site) -> int:
    """The number of calls to all BMCs."""
    return len(site.bmc.calls) + len(site.bmc.reads) + len(site.bmc.powers)


async def errors(machine: Machine) -> set[str]:
    """The names of the failure fields that are set in the node's record of its BMC."""
    return {"last_error", "failure", "failures", "sync_error", "sync_failure", "sync_failures"} & set(
        await machine.bmc()
    )
