"""sd_notify: the datagrams that systemd expects, and silence without it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from farrier.systemd import Notifier


@pytest.fixture(params=["path", "abstract"])
def supervisor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """(value of NOTIFY_SOCKET, the socket that listens there)."""
    name = f"@farrier-{os.getpid()}" if request.param == "abstract" else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name.replace("@", "\0") if request.param == "abstract" else name)
        listener.settimeout(5)
        yield name, listener


def test_each_message_is_one_datagram_in_the_format_of_sd_notify(
    supervisor: tuple[str, socket.socket],
) -> None:
    address, listener = supervisor
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.ready()
    notifier.alive()
    notifier.status("draining,\n3 runs left")
    notifier.stopping()
    assert [listener.recv(200) for _ in range(4)] == [
        b"READY=1",
        b"WATCHDOG=1",
        b"STATUS=draining, 3 runs left",
        b"STOPPING=1",
    ]


def test_a_status_line_is_sent_again_only_if_it_changed_or_was_lost(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    notifier = Notifier({"NOTIFY_SOCKET": str(path)})
    notifier.status("at work")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(5)
        for text in ("at work", "at work", "stopping"):
            notifier.status(text)
        assert [listener.recv(200) for _ in range(2)] == [b"STATUS=at work", b"STATUS=stopping"]


def test_a_reload_message_contains_the_time_that_systemd_requires(supervisor: tuple[str, socket.socket]) -> None:
    address, listener = supervisor
    Notifier({"NOTIFY_SOCKET": address}).reloading()
    first, second = listener.recv(200).decode().splitlines()
    assert first == "RELOADING=1"
    assert int(second.removeprefix("MONOTONIC_USEC=")) > 0


def test_without_a_reachable_systemd_notifications_do_nothing(tmp_path: Path) -> None:
    Notifier({}).ready()
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready()
    Notifier({"NOTIFY_SOCKET": "relative"}).ready()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"WATCHDOG_USEC": "30000000"}, timedelta(seconds=30), id="any process"),
        pytest.param({"WATCHDOG_USEC": "1000", "WATCHDOG_PID": str(os.getpid())}, timedelta(milliseconds=1), id="pid"),
        pytest.param({"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}, None, id="another process's"),
        pytest.param({}, None, id="none"),
        pytest.param({"WATCHDOG_USEC": "soon"}, None, id="garbage"),
    ],
)
def test_the_watchdog_interval_is_read_if_it_is_meant_for_this_process(
    environment: dict[str, str], expected: timedelta | None
) -> None:
    assert Notifier(environment).watchdog == expected
