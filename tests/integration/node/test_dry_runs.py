"""A controller answers how the handler would answer an intent, and nothing of this is stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from farrier.errors import RefusedByModel
from farrier.io.calls.requests import PostgresRequests
from farrier.model.intents.preview import Foreseen, PreviewVerdict
from farrier.model.intents.requests import IntentRequest
from tests.support.answering import answering
from tests.support.loop import PATIENCE
from tests.support.site import Site

HOLD = "INSERT INTO farrier.restore_holds (kind, id, since) VALUES ('node', $1, farrier.now())"
STORED = (
    "SELECT (SELECT count(*) FROM farrier.intents), (SELECT count(*) FROM farrier.wakes), "
    "(SELECT sum(version) FROM farrier.nodes)"
)


async def foreseen(site: Site, *asked: tuple[str, str, dict[str, object]]) -> Sequence[Foreseen | None]:
    wanted = [IntentRequest(resource=name, action=action, params=params) for name, action, params in asked]
    async with answering(site) as client:
        return await client.foresee("node", wanted, timedelta(seconds=PATIENCE))


async def test_a_dry_run_gives_the_answer_and_the_reason_that_the_intent_then_gets(site: Site) -> None:
    machine = await site.active()
    fresh = await site.register("fresh")
    intents: list[tuple[str, str, dict[str, object]]] = [
        (machine.name, "release", {}),
        (machine.name, "quarantine", {"reason": "fans"}),
        (machine.name, "delete", {}),
        (machine.name, "decommission", {"mode": "full_decommission"}),
        (fresh.name, "onboard", {"mode": "deploy"}),
        (fresh.name, "manage", {}),
        (fresh.name, "onboard", {"mode": "manual"}),
    ]
    told = await foreseen(site, *intents)
    for (name, action, params), answer in zip(intents, told, strict=True):
        it = machine if name == machine.name else fresh
        got = await it.ask(action, **params)
        assert answer is not None and (answer.verdict, answer.reason) == (got.status, got.reason), action
        if action == "quarantine":
            await it.asked("release")


async def test_a_question_changes_nothing(site: Site) -> None:
    machine = await site.active()
    before = await site.conn.fetchrow(STORED)
    (told,) = await foreseen(site, (machine.name, "drain", {}))
    assert told is not None and told.verdict is PreviewVerdict.ACCEPTED
    await site.settled()
    assert await site.conn.fetchrow(STORED) == before


async def test_an_answer_that_needs_a_reading_or_the_end_of_a_pause_is_not_foreseen(site: Site) -> None:
    machine = await site.with_bmc()
    await site.settled()
    (power,) = await foreseen(site, (machine.name, "set_power", {"power": "off"}))
    assert power is not None and power.verdict is PreviewVerdict.DEPENDS and "reading" in power.reason
    await machine.asked("pause", reason="hands in it")
    (held,) = await foreseen(site, (machine.name, "onboard", {"mode": "manual"}))
    assert held is not None and held.verdict is PreviewVerdict.DEPENDS and "hands in it" in held.reason


async def test_a_node_that_is_held_after_a_restore_answers_when_its_hold_is_lifted(site: Site) -> None:
    machine = await site.active()
    await site.conn.execute(HOLD, machine.id)
    (drain, malformed) = await foreseen(site, (machine.name, "drain", {}), (machine.name, "drain", {"force": True}))
    assert drain is not None and drain.verdict is PreviewVerdict.DEPENDS
    assert "held since the database was restored" in drain.reason and "lifts the hold" in drain.reason
    assert malformed is not None and malformed.verdict is PreviewVerdict.REJECTED
    await site.conn.execute("UPDATE farrier.restore_holds SET lifted_at = farrier.now()")
    (lifted,) = await foreseen(site, (machine.name, "drain", {}))
    assert lifted is not None and lifted.verdict is PreviewVerdict.ACCEPTED


async def test_a_malformed_intent_is_foreseen_as_rejected_with_the_fault(site: Site) -> None:
    machine = await site.active()
    (told,) = await foreseen(site, (machine.name, "drain", {"force": True}))
    assert told is not None and told.verdict is PreviewVerdict.REJECTED and "requires reason" in told.reason


async def test_nothing_is_foreseen_without_a_controller_and_of_an_unknown_node(site: Site) -> None:
    await site.active()
    client = PostgresRequests(site.pool, site.db.dsn)
    asked = [IntentRequest(resource="1", action="drain")]
    assert await client.foresee("node", asked, timedelta(0)) == (None,)
    with pytest.raises(RefusedByModel, match="no node is named"):
        await client.foresee("node", [IntentRequest(resource="nobody", action="drain")], timedelta(0))
