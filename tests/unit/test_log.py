"""Logs: one form for ours and others', and no secret in any of them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from typing_extensions import override

from farrier import log


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:  # what a person's standard error says
        return True


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.fixture
def out() -> io.StringIO:
    stream = io.StringIO()
    log.configure(log.Level.INFO, log.Format.AUTO, stream=stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_nobody_watching_means_one_json_object_per_line_with_time_and_level(out: io.StringIO) -> None:
    structlog.stdlib.get_logger("farrier.test").warning("node_silent", node="gpu-1", since=3)
    (line,) = lines(out)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "node_silent", "level": "warning", "node": "gpu-1", "since": 3}


def test_a_terminal_gets_colours_unless_systemd_owns_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    watched, journal = Terminal(), Terminal()
    log.configure(stream=watched)
    structlog.stdlib.get_logger().info("started")
    monkeypatch.setenv("JOURNAL_STREAM", "8:12345")
    log.configure(stream=journal)
    structlog.stdlib.get_logger().info("started")
    assert "\x1b[" in watched.getvalue()
    assert lines(journal)[0]["event"] == "started"


def test_what_is_below_the_level_is_not_written(out: io.StringIO) -> None:
    structlog.stdlib.get_logger().debug("detail")
    logging.getLogger("httpx").info("HTTP Request: GET https://bmc/redfish/v1")
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


def test_a_password_in_a_url_is_masked_wherever_it_stands(out: io.StringIO) -> None:
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
