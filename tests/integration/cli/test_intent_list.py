"""`farrier intent list`, `get` and `wait`: intents of nodes and of any other kind, with their answers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt
from tests.support import crates, pg

ANSWERED = """
    UPDATE farrier.intents SET status = 'rejected', reason = 'the node is enrolling', answered_at = farrier.now()
     WHERE action = 'drain'
"""


@pytest.fixture
async def asked(farrier: Prompt, db: pg.Database) -> Prompt:
    """Runs commands, on a database with two nodes and three intents, of which the second has an answer."""
    for name in ("gpu-1", "gpu-2"):
        await farrier("node", "add", name)
    await farrier(
        "intent", "submit", "gpu-1", "quarantine", "reason=fans", "--requested-by", "ann", "--idempotency-key", "k-1"
    )
    await farrier("intent", "submit", "gpu-1", "drain", "--requested-by", "ben")
    await farrier("intent", "submit", "gpu-2", "pause", "reason=hands in it", "--requested-by", "ann")
    async with db.connect() as conn:
        await conn.execute(ANSWERED)
    await db.advance(timedelta(minutes=5))
    return farrier


async def test_intents_are_listed_newest_first_by_resource_status_action_and_client(asked: Prompt) -> None:
    async def listed(*options: str) -> list[str]:
        return [intent["action"] for intent in (await asked("intent", "list", *options, "--json")).json]

    assert await listed() == ["pause", "drain", "quarantine"]
    assert await listed("gpu-1") == ["drain", "quarantine"]
    assert await listed("--status", "pending") == ["pause", "quarantine"]
    assert await listed("--action", "drain", "--action", "pause", "--requested-by", "ann") == ["pause"]
    assert await listed("--limit", "2") == ["pause", "drain"]
    header, *_, drain, _ = (await asked("intent", "list")).out.splitlines()
    assert header.split() == ["INTENT", "NAME", "ACTION", "STATUS", "AGE", "BY", "REASON"]
    assert drain.split()[1:5] == ["gpu-1", "drain", "rejected", "5m"] and drain.endswith("ben  the node is enrolling")
    assert (await asked("intent", "list", "--status", "superseded")).err == "no intent matches\n"


async def test_an_intent_is_shown_with_its_parameters_its_client_and_its_answer(asked: Prompt) -> None:
    third, second, first = (await asked("intent", "list", "--json")).json
    shown = (await asked("intent", "get", first["id"])).out
    for text in ("quarantine", "fans", "ann", "k-1", "pending", "gpu-1"):
        assert text in shown
    assert (await asked("intent", "get", second["id"], "--json")).json == second
    assert third["params"] == {"reason": "hands in it"}


async def test_waiting_for_an_intent_ends_as_its_submission_would(asked: Prompt) -> None:
    third, second, _ = (await asked("intent", "list", "--json")).json
    refused = await asked("intent", "wait", second["id"], ends=ExitCode.REFUSED)
    assert f"intent {second['id']} was rejected: the node is enrolling" in refused.err
    late = await asked("intent", "wait", third["id"], "--timeout", "1s", ends=ExitCode.FAILED)
    assert "was not answered within 1s" in late.err


async def test_intents_of_another_kind_are_read_by_their_kind(farrier: Prompt, db: pg.Database) -> None:
    async with crates.opened(db):
        intent = (await farrier("resource", "intent", "crate", "c-1", "create", "size=3", "--json")).json["intent"]
        (listed,) = (await farrier("intent", "list", "c-1", "--kind", "crate", "--json")).json
        assert (listed["id"], listed["action"], listed["kind"]) == (intent, "create", "crate")
        assert "accepted" in (await farrier("intent", "get", intent, "--kind", "crate")).out
        assert "is accepted" in (await farrier("intent", "wait", intent, "--kind", "crate")).out
        other = await farrier("intent", "get", intent, "--kind", "network_segment", ends=ExitCode.REFUSED)
        assert (
            "is for a resource of kind crate, not of kind network_segment" in other.err and "--kind crate" in other.err
        )


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["list", "gpu-9"], ExitCode.REFUSED, "no node is named 'gpu-9'"),
        (["list", "--action", "drian"], ExitCode.USAGE, "no action is named 'drian'; did you mean 'drain'?"),
        (["list", "--kind", "disk"], ExitCode.USAGE, "no kind is named 'disk'"),
        (["get", "999"], ExitCode.REFUSED, "no intent has the ID 999"),
        (["get", "drain"], ExitCode.USAGE, "unable to parse string as an integer"),
        (["wait", "999"], ExitCode.REFUSED, "no intent has the ID 999"),
    ],
)
async def test_an_intent_command_that_is_refused_prints_one_line(
    asked: Prompt, words: list[str], code: ExitCode, text: str
) -> None:
    refused = await asked("intent", *words, ends=code)
    assert text in " ".join(refused.err.replace("│", " ").split())
    assert not refused.out
