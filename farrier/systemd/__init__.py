"""Messages to systemd: takes the state of the daemon, and sends READY, STATUS, WATCHDOG, RELOADING or STOPPING.

`units/` has the units.

Without systemd ($NOTIFY_SOCKET is not set), a notifier does nothing. A notifier never raises an error and never blocks,
because the daemon must continue if systemd does not respond. The protocol is sd_notify(3), one datagram per message.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

UNITS = Path(__file__).parent / "units"
"""Directory of the templates of the units."""


class Notifier:
    """Sends notifications to the socket in $NOTIFY_SOCKET."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self.watchdog = _watchdog(environment)
        """Interval within which systemd requires a call of `alive`; None if systemd has no watchdog for farrier."""
        self._shown = ""  # the status line that systemd has received

    def ready(self) -> None:
        """Report that start-up or a reload is complete. systemd then starts the units that are ordered after
        farrier."""
        self._send("READY=1")

    def alive(self) -> None:
        """Reset the watchdog. Call this only if the loop has made progress."""
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """Set the line that `systemctl status` shows. If systemd already shows this line, nothing is sent."""
        line = " ".join(text.split())
        if line != self._shown and self._send(f"STATUS={line}"):
            self._shown = line

    def reloading(self) -> None:
        """Report that a reload has begun; `ready` reports its end."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Report that the drain has begun."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> bool:
        """Send a message. Returns whether the socket accepted it."""
        if self._address[:1] not in ("/", "@"):
            return False
        # In $NOTIFY_SOCKET, "@" represents the zero byte with which an abstract address begins.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            try:
                sender.sendto(message.encode(), address)
            except OSError:
                return False  # the socket is missing or full; the next notification tries again
        return True


def _watchdog(environment: Mapping[str, str]) -> timedelta | None:
    microseconds = environment.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return timedelta(microseconds=int(microseconds))
