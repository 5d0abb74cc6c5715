"""Tasks of the daemon that end without being asked, and the errors it ends with."""

from __future__ import annotations

import anyio
import pytest
from structlog.testing import capture_logs

from farrier.daemon import foreseen, until_stopped
from farrier.errors import ConfigError, InternalError


async def at_once() -> None:
    """Work that is over."""


async def broken() -> None:
    raise ZeroDivisionError


async def test_a_task_that_ends_by_itself_brings_the_others_down_by_its_name() -> None:
    async def all_tasks() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            tasks.start_soon(until_stopped, "listener", at_once, anyio.Event())

    with pytest.raises(BaseExceptionGroup) as caught:
        await all_tasks()
    assert caught.group_contains(InternalError, match="task listener ended by itself")


async def test_a_task_may_end_once_the_stop_has_come() -> None:
    stop = anyio.Event()
    stop.set()
    await until_stopped("listener", at_once, stop)


async def test_a_task_that_breaks_is_logged_by_its_name_and_brings_its_error() -> None:
    with capture_logs() as logged, pytest.raises(ZeroDivisionError):
        await until_stopped("watchdog", broken, anyio.Event())
    assert [(line["event"], line["task"]) for line in logged] == [("task.failed", "watchdog")]


def test_the_error_that_we_know_is_found_in_whatever_groups_it_comes_in() -> None:
    known = ConfigError("a port is taken")
    assert foreseen(known) is known
    assert foreseen(ExceptionGroup("outer", [ValueError(), ExceptionGroup("inner", [known])])) is known
    assert foreseen(ExceptionGroup("outer", [ValueError()])) is None
