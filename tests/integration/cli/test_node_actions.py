"""Commands that act on nodes: what they submit and for which nodes, what they ask before, and what they report.

One UPDATE plays the controller, so that a test decides when and how intents are answered.
"""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import msgspec
import pytest

from farrier.errors import ExitCode
from farrier.model.intents import actions
from farrier.model.intents.verbs import VERBS
from farrier.model.node.layers import DecommissionMode
from tests.integration.cli.conftest import Prompt, force
from tests.support import again, pg

REGISTERED = """
    SET session_replication_role = replica;
    SELECT farrier.register_node(name, details => jsonb_build_object('rack', left(name, 2)))
      FROM unnest('{r7-1, r7-2, r7-3, r7-4, r8-1}'::text[]) name;
    UPDATE farrier.nodes SET live_workflow_kind = NULL, live_workflow_id = NULL,
           status = CASE name WHEN 'r7-4' THEN 'offline' WHEN 'r8-1' THEN 'enrolling' ELSE 'active' END;
"""
PAUSED = """UPDATE farrier.nodes SET paused = '{"reason": "hands in it", "at": "2026-01-01T00:00:00Z"}'"""
STATUS = "UPDATE farrier.nodes SET status = $2 WHERE name = ANY ($1::text[])"
PENDING = """
    SELECT i.id, n.name FROM farrier.intents i JOIN farrier.nodes n ON n.id = i.node_id
     WHERE i.status = 'pending' ORDER BY i.id
"""
ANSWER = "UPDATE farrier.intents SET status = $2, reason = $3, answered_at = farrier.now() WHERE id = $1"
ASKED = """
    SELECT n.name, i.action, i.params::text, i.requested_by, i.idempotency_key FROM farrier.intents i
      JOIN farrier.nodes n ON n.id = i.node_id ORDER BY i.id
"""


@pytest.fixture
async def rack(farrier: Prompt, db: pg.Database) -> Prompt:
    """Runs commands, on a database with three active nodes, one offline and one enrolling."""
    async with db.connect() as conn:
        await conn.execute(REGISTERED)
    return farrier


async def asked(db: pg.Database) -> list[dict[str, Any]]:
    async with db.connect() as conn:
        return [dict(record) for record in await conn.fetch(ASKED)]


class Controller:
    """Answers each pending intent as `answers` says, or else `accepted`, which moves the node to `becomes`. With
    `first`, the node is moved before the answer, whatever the answer is."""

    def __init__(self, answers: Mapping[str, tuple[str, str | None]], becomes: str | None, *, first: bool) -> None:
        self._answers = answers
        self._becomes = becomes
        self._first = first
        self.most_pending = 0

    async def run(self, db: pg.Database) -> None:
        async with db.connect() as conn:
            await conn.execute("SET session_replication_role = replica")
            while True:
                pending = await conn.fetch(PENDING)
                self.most_pending = max(self.most_pending, len(pending))
                for intent, name in pending:
                    status, reason = self._answers.get(name, ("accepted", None))
                    if self._first:
                        await conn.execute(STATUS, [name], self._becomes)
                    await conn.execute(ANSWER, intent, status, reason)
                    if status == "accepted" and self._becomes is not None:
                        await conn.execute(STATUS, [name], self._becomes)
                await again.later()


@asynccontextmanager
async def controller(
    db: pg.Database,
    answers: Mapping[str, tuple[str, str | None]] | None = None,
    becomes: str | None = None,
    *,
    first: bool = False,
) -> AsyncIterator[Controller]:
    one = Controller(answers or {}, becomes, first=first)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.run, db)
        yield one
        tasks.cancel_scope.cancel()


async def test_an_action_on_one_node_asks_no_question_and_reports_the_answer(rack: Prompt, db: pg.Database) -> None:
    async with controller(db, {"r7-1": ("accepted", "the drain begins")}):
        said = await rack(
            "node", "drain", "r7-1", "--reason", "fans", "--force", "--requested-by", "ann", "--idempotency-key", "k"
        )
    (intent,) = await asked(db)
    assert intent == {
        "name": "r7-1",
        "action": "drain",
        "params": '{"force": true, "reason": "fans"}',
        "requested_by": "ann",
        "idempotency_key": "k",
    }
    assert said.out.startswith("r7-1: drain is accepted (intent ") and said.out.endswith("): the drain begins\n")


async def test_many_nodes_end_with_a_table_of_refusals_and_1(rack: Prompt, db: pg.Database) -> None:
    async with controller(db, {"r7-2": ("rejected", "its tasks run"), "r7-4": ("superseded", "by intent 9")}):
        said = await rack("node", "drain", "--rack", "r7", "--yes", ends=ExitCode.FAILED)
    first, header, *rows = said.out.splitlines()
    assert first == "drain is accepted for 2 nodes"
    assert header.split() == ["NAME", "INTENT", "STATUS", "REASON"]
    assert [(row.split()[0], *row.split(maxsplit=3)[2:]) for row in rows] == [
        ("r7-2", "rejected", "its tasks run"),
        ("r7-4", "superseded", "by intent 9"),
    ]
    assert [intent["name"] for intent in await asked(db)] == ["r7-1", "r7-2", "r7-3", "r7-4"]


async def test_results_are_json_for_programs(rack: Prompt, db: pg.Database) -> None:
    async with controller(db, {"r7-2": ("rejected", "its tasks run")}):
        said = await rack("node", "drain", "r7-[12]", "--yes", "--json", ends=ExitCode.FAILED)
    assert {(each["name"], each["status"], each["reason"]) for each in said.json} == {
        ("r7-1", "accepted", None),
        ("r7-2", "rejected", "its tasks run"),
    }


async def test_several_nodes_without_a_terminal_need_yes_and_the_error_says_how_many_of_which_status(
    rack: Prompt, db: pg.Database
) -> None:
    refused = await rack("node", "drain", "*", ends=ExitCode.USAGE)
    text = " ".join(refused.err.replace("│", " ").split())
    states = "3 active, 1 offline, 1 enrolling"
    answers = "the table of actions would reject 1 now; no controller answered"
    assert f"drain 5 nodes ({states}; {answers})" in text
    assert "add --yes to confirm, or --dry-run" in text
    assert await asked(db) == []


async def test_a_dry_run_shows_what_the_model_would_refuse_now_and_submits_nothing(
    rack: Prompt, db: pg.Database
) -> None:
    await force(db, f"{PAUSED} WHERE name = 'r7-2'")
    said = await rack("node", "drain", "*", "--dry-run", ends=ExitCode.FAILED)
    header, *rows = said.out.splitlines()
    assert header.split() == ["NAME", "STATE", "ANSWER", "NOW", "REASON"]
    shown = {row.split()[0]: row.split(maxsplit=3)[2:] for row in rows}
    unasked = ["depends", "no controller answered; this is the answer of the table of actions"]
    assert shown["r7-1"] == unasked and shown["r7-4"] == unasked
    assert shown["r7-2"] == ["depends", "drain waits for the end of the pause: hands in it"]
    assert shown["r8-1"][0] == "rejected" and "this node is enrolling" in shown["r8-1"][1]
    assert "nothing was submitted" in said.err
    assert await asked(db) == []
    (first, *_) = (await rack("node", "drain", "r7-1", "--dry-run", "--json")).json
    assert (first["name"], first["answer"]) == ("r7-1", "depends")


async def test_a_command_that_is_repeated_with_its_key_submits_nothing_twice(rack: Prompt, db: pg.Database) -> None:
    began = await rack("node", "quarantine", "r7-1", "r7-2", "--reason", "fans", "--yes", "--no-wait")
    assert began.out == "quarantine is submitted for 2 nodes\n"
    key = began.err.split("--idempotency-key ")[1].strip()
    async with controller(db):
        await rack("node", "quarantine", "r7-[123]", "--reason", "fans", "--yes", "--idempotency-key", key)
    assert [(intent["name"], intent["idempotency_key"]) for intent in await asked(db)] == [
        (name, key) for name in ("r7-1", "r7-2", "r7-3")
    ]


async def test_with_max_in_flight_the_next_node_waits_until_another_has_arrived(rack: Prompt, db: pg.Database) -> None:
    async with controller(db, becomes="draining") as one:
        said = await rack(
            *("node", "drain", "r7-*", "--yes", "--max-in-flight", 1, "--until", "draining", "--json"),
        )
    assert one.most_pending == 1
    assert [(each["name"], each["status"], each["state"]) for each in said.json] == [
        (f"r7-{number}", "accepted", "draining") for number in (1, 2, 3, 4)
    ]


async def test_with_max_in_flight_no_further_node_begins_after_a_late_node(rack: Prompt, db: pg.Database) -> None:
    async with controller(db):
        said = await rack(
            *("node", "drain", "r7-[123]", "--yes", "--max-in-flight", 1, "--until", "retired", "--timeout", "1s"),
            ends=ExitCode.FAILED,
        )
    rows = [line.split()[0] for line in said.out.splitlines()[1:]]
    assert rows == ["r7-1", "r7-2", "r7-3"]
    assert "late" in said.out and "is active, not retired, after 1s" in said.out
    assert said.out.count("not begun") == 2
    assert [intent["name"] for intent in await asked(db)] == ["r7-1"]


async def test_a_late_answer_is_reported_with_what_delays_it(rack: Prompt, db: pg.Database) -> None:
    await force(db, PAUSED)
    said = await rack("node", "quarantine", "r7-1", "--reason", "x", "--timeout", "1s", ends=ExitCode.FAILED)
    assert "has no answer after 1s: quarantine waits for the end of the pause: hands in it" in " ".join(
        said.out.split()
    )


async def test_a_node_that_can_never_reach_the_status_is_not_waited_for(rack: Prompt, db: pg.Database) -> None:
    async with controller(db, becomes="deleted"):
        said = await rack("node", "drain", "r7-1", "--until", "retired", "--timeout", "1h", ends=ExitCode.FAILED)
    assert "is deleted, so it cannot become retired" in said.out


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["drain"], ExitCode.USAGE, "name the nodes, or select them"),
        (["drain", "r7-1", "r7-9"], ExitCode.REFUSED, "no node is named 'r7-9'"),
        (["drain", "r7-1", "--force"], ExitCode.USAGE, "--reason is required with force"),
        (["quarantine", "r7-1"], ExitCode.USAGE, "reason"),
        (["quarantine", "r7-1", "--reason", " "], ExitCode.USAGE, "--reason is empty"),
        (
            ["onboard", "r7-1", "--mode", "deplyo"],
            ExitCode.USAGE,
            '--mode must be one of deploy, adopt, manual, got "deplyo"',
        ),
        (["set-bmc", "r7-1", "--credential", "s3cret"], ExitCode.USAGE, "not the secret itself"),
        (["set-bmc", "r7-1"], ExitCode.USAGE, "at least one of these is needed: address, credential"),
        (["drain", "r7-1", "--max-in-flight", "0"], ExitCode.USAGE, "max-in-flight"),
        (["drain", "r7-1", "--no-wait", "--until", "retired"], ExitCode.USAGE, "--no-wait cannot be combined with"),
        (
            ["drain", "r7-1", "--idempotency-key", "k" * 256],
            ExitCode.USAGE,
            "idempotency_key must have 1 to 255 characters",
        ),
    ],
)
async def test_a_mistake_submits_nothing(
    rack: Prompt, db: pg.Database, words: list[str], code: ExitCode, text: str
) -> None:
    refused = await rack("node", *words, ends=code)
    assert text in " ".join(refused.err.replace("│", " ").split())
    assert "s3cret" not in refused.err
    assert await asked(db) == []


@pytest.mark.parametrize(
    "words",
    [
        ("node", "drain", "--status", "retired"),
        ("node", "reimage", "r9-*"),
        ("node", "set", "r9-*", "site=ams1"),
        ("resource", "act", "network_segment", "delete", "tenant-*"),
    ],
)
async def test_a_selection_that_matches_nothing_is_an_error_unless_it_is_allowed(
    rack: Prompt, db: pg.Database, words: tuple[str, ...]
) -> None:
    refused = await rack(*words, ends=ExitCode.REFUSED)
    assert "matches the selection; nothing was submitted\nhint: to make this a success, add --allow-none" in refused.err
    assert await asked(db) == []
    allowed = await rack(*words, "--allow-none")
    assert (allowed.out, allowed.err.count("\n")) == ("", 1)


async def test_a_node_that_already_has_the_awaited_status_is_a_success(rack: Prompt, db: pg.Database) -> None:
    await force(db, STATUS, ["r7-1", "r7-2"], "retired")
    drained = ("node", "drain", "r7-[12]", "--until", "retired")
    assert (await rack(*drained, "--yes")).out == "2 nodes are already retired\n"
    preview = (await rack(*drained, "--dry-run", "--json")).json
    assert [each["answer"] for each in preview] == ["already", "already"]
    assert await asked(db) == []


async def test_a_node_that_gets_the_awaited_status_before_the_answer_is_a_success(
    rack: Prompt, db: pg.Database
) -> None:
    async with controller(db, {"r7-1": ("rejected", "this node is retired")}, becomes="retired", first=True):
        said = await rack("node", "drain", "r7-1", "--until", "retired")
    assert said.out == "r7-1 is already retired\n"


async def test_a_number_is_a_time_limit_in_seconds(rack: Prompt, db: pg.Database) -> None:
    said = await rack("node", "quarantine", "r7-1", "--reason", "x", "--timeout", "1", ends=ExitCode.FAILED)
    assert "has no answer after 1s" in " ".join(said.out.split())
    said = await rack("intent", "submit", "r7-2", "drain", "--wait", "--timeout", "1", ends=ExitCode.FAILED)
    assert "was not answered within 1s" in said.err


async def test_a_missing_right_to_submit_is_reported_with_the_role_that_has_it(rack: Prompt, db: pg.Database) -> None:
    async with db.connect() as conn:
        name = f"reader_of_{await conn.fetchval('SELECT current_database()')}"
        await conn.execute(f"CREATE ROLE {name} LOGIN; GRANT farrier_reader TO {name}")
    try:
        reader = Prompt(FARRIER_DATABASE_DSN=db.dsn.replace("postgres@", f"{name}@", 1))
        for words in (("drain", "r7-1"), ("drain", "r7-*", "--yes"), ("set", "r7-1", "site=ams1")):
            refused = await reader("node", *words, ends=ExitCode.REFUSED)
            assert "permission denied" in refused.err
            assert "submitting intents requires farrier_intents" in refused.err
    finally:
        async with db.connect() as conn:
            await conn.execute(f"DROP ROLE {name}")


async def test_a_refused_registration_of_one_intent_does_not_stop_the_others(rack: Prompt, db: pg.Database) -> None:
    await rack("node", "quarantine", "r7-2", "--reason", "smoke", "--no-wait", "--idempotency-key", "k")
    async with controller(db):
        said = await rack(
            "node", "quarantine", "r7-*", "--reason", "fans", "--yes", "--idempotency-key", "k", ends=ExitCode.FAILED
        )
    assert "refused" in said.out and "belongs to intent" in said.out
    assert "quarantine is accepted for 3 nodes" in said.out


@asynccontextmanager
async def terminal(db: pg.Database, *words: str) -> AsyncIterator[tuple[anyio.abc.Process, int]]:
    """`farrier` on a terminal of its own."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"FARRIER_DATABASE_DSN": db.dsn, "TERM": "xterm", "COLUMNS": "200"}
    command = [sys.executable, "-m", "farrier", *words]
    process = await anyio.open_process(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        yield process, ours
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        os.close(ours)


async def heard(terminal: int, text: str) -> str:
    """What the terminal shows, up to this text."""
    shown = ""
    while text not in shown:
        shown += (await anyio.to_thread.run_sync(os.read, terminal, 1000)).decode()
    return shown


async def test_on_a_terminal_the_command_asks_and_reports_what_remains_after_ctrl_c(
    rack: Prompt, db: pg.Database
) -> None:
    async with terminal(db, "node", "drain", "r7-*") as (process, ours):
        assert "drain 4 nodes (3 active, 1 offline; no controller answered)?" in await heard(ours, "[y/N]")
        assert await asked(db) == []
        os.write(ours, b"y\n")
        await heard(ours, "0/4")
        while len(await asked(db)) < 4:
            await again.later()
        process.send_signal(signal.SIGINT)
        shown = await heard(ours, "--idempotency-key cli-")
        assert "interrupted after 0 of 4; submitted intents stay valid" in shown
        assert await process.wait() == ExitCode.FAILED


SUBMITTED = "SELECT action, params::text FROM farrier.intents ORDER BY id"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "reimage": ("decommission", {"mode": "reimage"}),
    "reimage --force --reason dead": ("decommission", {"mode": "reimage", "force": True, "reason": "dead"}),
    "soft-reset --retire": ("decommission", {"mode": "soft_reset", "retire": True}),
    "clean-storage": ("decommission", {"mode": "storage_cleanup"}),
    "retire --reason fans": ("drain", {"reason": "fans"}),
    "replace-bmc --address https://10.0.0.9": ("set_bmc", {"address": "https://10.0.0.9"}),
    "replace-machine": ("set_bmc", {"replace": True}),
    "replace-machine --force --address https://10.0.0.9": (
        "set_bmc",
        {"replace": True, "force": True, "address": "https://10.0.0.9"},
    ),
    "power-on": ("set_power", {"power": "on"}),
    "power-off --enforce": ("set_power", {"power": "off", "enforce": True}),
    "power-reset": ("set_power", {"power": "reset"}),
}


@pytest.mark.parametrize("words", CASES)
async def test_a_verb_submits_its_action_with_its_mode(farrier: Prompt, db: pg.Database, words: str) -> None:
    await farrier("node", "add", "gpu-1")
    verb, *options = words.split()
    said = await farrier("node", verb, "gpu-1", *options, "--no-wait")
    assert said.out.startswith(f"gpu-1: {verb} is submitted (intent ")
    async with db.connect() as conn:
        ((action, params),) = await conn.fetch(SUBMITTED)
    assert (action, msgspec.json.decode(params)) == CASES[words]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("replace-bmc", "at least one of these is needed: address, credential"),
        ("replace-bmc --replace", "No such option: --replace"),
        ("replace-machine --no-replace", "No such option: --no-replace"),
        ("reimage --mode soft_reset", "No such option: --mode"),
        ("reimage --force", "--reason is required with force"),
    ],
)
async def test_a_verb_is_refused_what_it_fixes_and_what_its_action_refuses(
    farrier: Prompt, words: str, text: str
) -> None:
    await farrier("node", "add", "gpu-1")
    verb, *options = words.split()
    assert text in (await farrier("node", verb, "gpu-1", *options, ends=ExitCode.USAGE)).err


def test_every_verb_is_a_valid_intent_and_every_mode_that_keeps_the_node_has_a_verb() -> None:
    for verb in VERBS.values():
        given = {"address": "https://10.0.0.9"} if "address" in verb.schema.any_of else {}
        actions.decode(verb.action, {**verb.params, **given})
    modes = {verb.params.get("mode") for verb in VERBS.values()}
    assert modes >= {str(mode) for mode in DecommissionMode} - {DecommissionMode.FULL_DECOMMISSION.value}
    assert not {name.replace("-", "_") for name in VERBS} & set(actions.Action)
