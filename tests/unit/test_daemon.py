"""Tasks of the daemon that end unexpectedly, the errors with which it ends, and the signals that it handles."""

from __future__ import annotations

import signal
import socket
import threading
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from farrier import clock
from farrier.config import Config, DatabaseConfig, HttpConfig
from farrier.daemon import Daemon
from farrier.errors import ConfigError, InternalError
from farrier.process import end, foreseen, obey, until_stopped
from farrier.server import Server
from farrier.sim.certificates import Authority

NOWHERE = DatabaseConfig(dsn="postgresql://postgres@127.0.0.1:1/farrier")


async def at_once() -> None:
    """A task that ends at once."""


async def broken() -> None:
    raise ZeroDivisionError


async def test_a_task_that_ends_by_itself_stops_the_others_with_an_error_that_names_it() -> None:
    async def all_tasks() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            tasks.start_soon(until_stopped, "listener", at_once, anyio.Event())

    with pytest.raises(BaseExceptionGroup) as caught:
        await all_tasks()
    assert caught.group_contains(InternalError, match="task listener ended unexpectedly")


async def test_a_task_may_end_after_a_stop() -> None:
    stop = anyio.Event()
    stop.set()
    await until_stopped("listener", at_once, stop)


async def test_a_task_that_fails_is_logged_with_its_name_and_raises_its_error() -> None:
    with capture_logs() as logged, pytest.raises(ZeroDivisionError):
        await until_stopped("watchdog", broken, anyio.Event())
    assert [(line["event"], line["task"]) for line in logged] == [("task.failed", "watchdog")]


def test_an_expected_error_is_found_in_nested_exception_groups() -> None:
    known = ConfigError("a port is taken")
    assert foreseen(known) is known
    assert foreseen(ExceptionGroup("outer", [ValueError(), ExceptionGroup("inner", [known])])) is known
    assert foreseen(ExceptionGroup("outer", [ValueError()])) is None


class Reloads:
    """Reloads that wait; each `let_go` completes one."""

    def __init__(self) -> None:
        self.begun = 0
        self.at_once = 0
        self._begins = anyio.Semaphore(0)
        self._ends = anyio.Semaphore(0)

    async def reload(self) -> None:
        self.begun += 1
        self.at_once += 1
        assert self.at_once == 1, "two reloads ran at once"
        self._begins.release()
        await self._ends.acquire()
        self.at_once -= 1

    async def begins(self) -> None:
        await self._begins.acquire()

    def let_go(self) -> None:
        self._ends.release()


async def test_a_stop_is_handled_during_a_reload_that_waits() -> None:
    reloads, life, stop = Reloads(), anyio.CancelScope(), anyio.Event()
    send, received = anyio.create_memory_object_stream[signal.Signals](10)
    with anyio.fail_after(5):
        async with send, received, anyio.create_task_group() as tasks:
            tasks.start_soon(obey, received, Daemon(Config(), stop), stop, life.cancel, reloads.reload)
            await send.send(signal.SIGHUP)
            await reloads.begins()
            await send.send(signal.SIGTERM)
            while not life.cancel_called:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()


async def test_signals_during_a_reload_cause_one_more_reload() -> None:
    reloads, stop = Reloads(), anyio.Event()
    send, received = anyio.create_memory_object_stream[signal.Signals](10)
    with anyio.fail_after(5):
        async with received, anyio.create_task_group() as tasks:
            tasks.start_soon(obey, received, Daemon(Config(), stop), stop, anyio.CancelScope().cancel, reloads.reload)
            await send.send(signal.SIGHUP)
            await reloads.begins()
            for _ in range(3):
                await send.send(signal.SIGHUP)
            await send.aclose()
            while received.statistics().current_buffer_used:
                await anyio.lowlevel.checkpoint()
            reloads.let_go()
            await reloads.begins()
            reloads.let_go()
    assert reloads.begun == 2


async def test_an_expired_certificate_is_logged_at_the_start_and_does_not_prevent_it(tmp_path: Path) -> None:
    authority = Authority("test", now=clock.wall())
    files = authority.issue(tmp_path, hosts=("127.0.0.1",), lifetime=timedelta(days=-1))
    with socket.create_server(("127.0.0.1", 0)) as taken, capture_logs() as logged:
        port = taken.getsockname()[1]
        http = HttpConfig(port=port, tls_cert=str(files.certificate), tls_key=str(files.key))
        with pytest.raises(ConfigError, match="cannot listen"):  # the start goes on until the taken port
            await Server(Config(http=http, database=NOWHERE), anyio.Event()).run()
    (line,) = [line for line in logged if line["event"] == "certificate.faulty"]
    assert (line["log_level"], line["reason"]) == ("warning", "certificate has expired")


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({"host": "192.0.2.1"}, True),
        ({"host": "192.0.2.1", "bearer_token": "env:FARRIER_SECRET_API"}, False),
        ({"host": "127.0.0.1"}, False),
    ],
)
async def test_a_server_beyond_loopback_without_any_token_is_named_at_the_start(
    settings: dict[str, str], warned: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, capture_logs() as logged:
        http = HttpConfig(port=taken.getsockname()[1], **settings)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="cannot listen"):  # no machine has the address; the port is taken
            await Server(Config(http=http, database=NOWHERE), anyio.Event()).run()
    found = [line for line in logged if line["event"] == "http.no_token"]
    assert [line["log_level"] for line in found] == ["warning"] * warned
    assert all("http.tokens_file" in line["hint"] for line in found)


async def test_only_a_second_signal_may_end_the_process_before_its_tasks() -> None:
    life, stop = anyio.CancelScope(), anyio.Event()
    end(life, stop)
    assert (life.cancel_called, _timers()) == (True, [])
    end(life, stop)
    (timer,) = _timers()
    timer.cancel()


def _timers() -> list[threading.Timer]:
    return [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
