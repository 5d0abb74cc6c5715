"""Notifies systemd of the daemon's state: READY, STATUS, WATCHDOG, RELOADING, STOPPING.

Called by `daemon`. Outside of systemd ($NOTIFY_SOCKET is not set) it does nothing. It never raises and never blocks:
the work must go on if the supervisor does not respond. The protocol is sd_notify(3), one datagram per message.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from datetime import timedelta


class Notifier:
    """Sends to the socket that the environment names."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self.watchdog = _watchdog(environment)
        """Interval within which systemd requires a notification; None if it requires none. The daemon notifies after a
        third of it."""

    def ready(self) -> None:
        """Start-up is over: units ordered after this one may start."""
        self._send("READY=1")

    def alive(self) -> None:
        """The loop made progress. Call it from the loop itself, or the watchdog watches nothing."""
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self._send(f"STATUS={' '.join(text.split())}")

    def reloading(self) -> None:
        """Configuration is being read again; `ready` reports the end."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The drain has begun."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if self._address[:1] not in ("/", "@"):
            return
        # "@" stands for the zero byte that an abstract address begins with.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            try:
                sender.sendto(message.encode(), address)
            except OSError:
                return  # the socket is gone or full; the next notification is another try


def _watchdog(environment: Mapping[str, str]) -> timedelta | None:
    microseconds = environment.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return timedelta(microseconds=int(microseconds))
