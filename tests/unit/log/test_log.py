"""Logs: farrier's events and those of libraries have the same format, and no secret."""

from __future__ import annotations

import io
import logging
import subprocess
import sys

import pytest
import structlog
from typing_extensions import override

from farrier import log
from tests.support.logged import lines


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:  # as standard error of an interactive user
        return True


def test_without_a_terminal_each_line_is_one_json_object_with_time_and_level(out: io.StringIO) -> None:
    structlog.stdlib.get_logger("farrier.test").warning("node_silent", node="gpu-1", since=3)
    (line,) = lines(out)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "node_silent", "level": "warning", "node": "gpu-1", "since": 3}


def test_a_terminal_gets_colours_unless_systemd_reads_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    watched, journal = Terminal(), Terminal()
    log.configure(stream=watched)
    structlog.stdlib.get_logger().info("started")
    monkeypatch.setenv("JOURNAL_STREAM", "8:12345")
    log.configure(stream=journal)
    structlog.stdlib.get_logger().info("started")
    assert "\x1b[" in watched.getvalue()
    assert lines(journal)[0]["event"] == "started"


def test_a_warning_of_python_is_a_line_of_the_log() -> None:
    # In a process of its own, because pytest captures the warnings of this one.
    code = "import warnings; from farrier import log; log.configure(); warnings.warn('never awaited', RuntimeWarning)"
    ran = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=True)
    (line,) = lines(io.StringIO(ran.stderr))
    assert "RuntimeWarning: never awaited" in line["event"]
    assert line["level"] == "warning"


def test_events_below_the_level_are_not_written(out: io.StringIO) -> None:
    structlog.stdlib.get_logger().debug("detail")
    logging.getLogger("httpx").info("HTTP Request: GET https://bmc/redfish/v1")
    assert out.getvalue() == ""


def test_reconnections_of_the_driver_are_not_logged(out: io.StringIO) -> None:
    logging.getLogger("asyncpg.pool").warning("Failed to restore the pool connection floor; retrying")
    assert out.getvalue() == ""


def test_the_context_of_a_run_is_in_each_of_its_lines(out: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(kind="node", id=7):
        structlog.stdlib.get_logger().info("ran")
    structlog.stdlib.get_logger().info("idle")
    inside, outside = lines(out)
    assert (inside["kind"], inside["id"]) == ("node", 7)
    assert "id" not in outside


@pytest.mark.parametrize(
    "key",
    ["password", "db_password", "token", "bearer_token", "Authorization", "secret", "agent_key", "api_key"],
)
def test_a_value_under_a_key_that_names_a_secret_is_masked_at_any_depth(out: io.StringIO, key: str) -> None:
    logger = structlog.stdlib.get_logger()
    logger.info("plain", **{key: "hunter2"})
    logger.info("nested", request={"headers": [{key: b"hunter2"}]})
    assert "hunter2" not in out.getvalue()
    assert lines(out)[0][key] == log.MASK


def test_fencing_tokens_are_numbers_and_stay_readable(out: io.StringIO) -> None:
    structlog.stdlib.get_logger().info("lease_lost", claim_token=4711)
    assert lines(out)[0]["claim_token"] == 4711


def test_a_password_in_a_url_is_masked_in_fields_and_in_messages(out: io.StringIO) -> None:
    structlog.stdlib.get_logger().info("connecting", where="to postgresql://me:hunter2@db.example/farrier")
    logging.getLogger("other.library").warning("cannot open %s", "https://me:hunter2@bmc.example/")
    assert "hunter2" not in out.getvalue()
    assert "postgresql://me:***@db.example/farrier" in lines(out)[0]["where"]
    assert lines(out)[1]["level"] == "warning"


@pytest.mark.parametrize("form", [log.Format.JSON, log.Format.CONSOLE])
def test_a_traceback_shows_neither_passwords_in_urls_nor_local_variables(form: log.Format) -> None:
    stream = io.StringIO()
    log.configure(form=form, stream=stream)

    def dial(login: str) -> None:
        raise OSError(f"no route to https://me:{login}@bmc.example")

    try:
        dial("".join(["hunter", "2"]))
    except OSError:
        structlog.stdlib.get_logger().exception("dial_failed")
    assert "no route to" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def hand(out: io.StringIO) -> Hand:
    """The clock by which repeated lines are counted."""
    clock = Hand()
    log.configure(stream=out, clock=clock)
    return clock


def test_an_event_that_repeats_for_one_node_is_written_once_in_five_minutes(out: io.StringIO, hand: Hand) -> None:
    logger = structlog.stdlib.get_logger()
    for _ in range(11):
        logger.warning("run.failed", kind="node", id=7, label="timeout", error=f"after {hand.seconds} s")
        hand.seconds += 30
    first, later = lines(out)
    assert "repeated" not in first
    assert later["repeated"] == 9


def test_an_event_of_another_node_or_with_another_error_is_no_repetition(out: io.StringIO, hand: Hand) -> None:
    logger = structlog.stdlib.get_logger()
    for id_, label in [(1, "timeout"), (2, "timeout"), (1, "credential")]:
        logger.warning("run.failed", kind="node", id=id_, label=label)
    with structlog.contextvars.bound_contextvars(kind="node", id=3):
        logger.warning("run.failed", label="timeout")
    for error in (KeyError("a"), ValueError("a")):
        logger.error("handler.crashed", kind="node", id=1, exc_info=error)
    assert len(lines(out)) == 6


def test_a_failure_of_the_process_with_another_cause_is_no_repetition(out: io.StringIO, hand: Hand) -> None:
    logger = structlog.stdlib.get_logger()
    for error in ("too many connections", "too many connections", "password authentication failed"):
        logger.warning("renew.failed", error=error)
        logger.warning("database.unreachable", where="db", reason=error, next_try_in=hand.seconds)
        hand.seconds += 2
    for timeline in ("00000002", "00000003"):
        logger.warning("database.promoted", timeline=timeline)
    events = [line["event"] for line in lines(out)]
    assert events == [*("renew.failed", "database.unreachable") * 2, *("database.promoted",) * 2]


def test_after_a_signal_each_event_is_written_again(out: io.StringIO, hand: Hand) -> None:
    logger = structlog.stdlib.get_logger()
    for _ in range(2):
        for _ in range(3):
            logger.error("config.refused", error="unknown section 'htpp'")
        log.forget_repeats()
    events = [(line["event"], line.get("lines")) for line in lines(out)]
    assert events == [("config.refused", None), ("log.repeats_not_written", 2)] * 2


def test_an_error_of_thousands_of_nodes_is_a_hundred_lines_and_a_count_of_the_others(
    out: io.StringIO, hand: Hand
) -> None:
    logger = structlog.stdlib.get_logger()
    for id_ in range(5000):
        logger.warning("run.failed", kind="node", id=id_)
    logger.warning("listen.lost")
    assert len(lines(out)) == 101
    log.write_repeats()
    assert len(lines(out)) == 101, "not yet"
    hand.seconds += 301
    log.write_repeats()
    log.write_repeats()
    written = lines(out)[101:]
    assert [(line["event"], line["of"], line["lines"]) for line in written] == [
        ("log.repeats_not_written", "run.failed", 4900)
    ]


def test_nodes_whose_events_were_not_written_are_written_in_later_minutes(out: io.StringIO, hand: Hand) -> None:
    logger = structlog.stdlib.get_logger()
    for _ in range(3):
        for id_ in range(250):
            logger.warning("run.failed", kind="node", id=id_)
        hand.seconds += 61
    assert sorted(line["id"] for line in lines(out)) == list(range(250))


def test_the_counts_of_repetitions_are_written_at_the_end_without_a_wait(out: io.StringIO, hand: Hand) -> None:
    for _ in range(4):
        structlog.stdlib.get_logger().error("commit.not_won", kind="node", id=1)
    log.write_repeats(at_once=True)
    assert lines(out)[-1]["lines"] == 3


def test_events_of_level_info_and_critical_are_written_each_time(out: io.StringIO, hand: Hand) -> None:
    logger = structlog.stdlib.get_logger()
    for _ in range(300):
        logger.info("state.moved", kind="node", id=1)
        logger.critical("task.failed", task="listener")
    assert len(lines(out)) == 600


def test_repeated_events_of_libraries_are_limited_too(out: io.StringIO, hand: Hand) -> None:
    for number in range(300):
        logging.getLogger("asyncio").error("Task exception was never retrieved: %s", number)
    assert len(lines(out)) == 1


def test_no_traceback_is_rendered_for_an_event_that_is_not_written(out: io.StringIO, hand: Hand) -> None:
    class Loud(Exception):
        shown = 0

        @override
        def __str__(self) -> str:
            Loud.shown += 1
            return "loud"

    for _ in range(50):
        structlog.stdlib.get_logger().error("handler.crashed", kind="node", id=1, exc_info=Loud())
    shown = Loud.shown
    assert (len(lines(out)), shown > 0) == (1, True)
    structlog.stdlib.get_logger().error("handler.crashed", kind="node", id=1, exc_info=Loud())
    assert Loud.shown == shown


def test_the_memory_of_repetitions_is_bounded_for_any_number_of_events_and_loggers() -> None:
    hand = Hand()
    repeats = log.Repeats(hand)
    for number in range(30_000):
        repeats.admit(f"library-{number % 3000}", number)
        hand.seconds += 0.001
    seen, bursts = vars(repeats)["_seen"], vars(repeats)["_bursts"]
    assert len(seen) <= 10_000
    assert len(bursts) <= 1_001
    hand.seconds += 3600
    repeats.admit("run.failed", 1)
    assert len(seen) == 1


def test_a_reload_of_the_settings_forgets_earlier_events(out: io.StringIO) -> None:
    for _ in range(2):
        log.configure(stream=out)
        structlog.stdlib.get_logger().warning("listen.lost")
    assert len(lines(out)) == 2
