"""A server that a controller with an embedded database starts (`children`): `python -m farrier.child KIND DESCRIPTOR`.

DESCRIPTOR is the socket that the controller has bound. Each line on standard input has the settings, as JSON. The first
line starts the server, and each further line replaces the settings and reads tokens and certificate again. The server
ends when standard input closes.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from typing import IO

import msgspec

from farrier import log, server
from farrier.config import Config
from farrier.errors import ExitCode
from farrier.model.loop.doors import DoorKind

# How long the server may take to end after the controller, in seconds: longer than the time that its requests get. It
# must not serve without a controller because its event loop hangs.
_ENDS_WITHIN = 6.0


class _Settings:
    """The settings that the controller sent last. A thread reads them, so that it also ends a server that hangs."""

    def __init__(self, lines: IO[bytes]) -> None:
        self._lines = lines
        self.current = _decoded(lines.readline())

    def follow(self) -> None:
        threading.Thread(target=self._follow, daemon=True, name="controller").start()

    def _follow(self) -> None:
        for line in self._lines:
            self.current = _decoded(line)
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_ENDS_WITHIN)
        os._exit(ExitCode.FAILED)


def _decoded(line: bytes) -> Config:
    if not line:
        sys.exit(ExitCode.FAILED)  # the controller has ended already
    return msgspec.json.decode(line, type=Config)


def main() -> ExitCode:
    """Serve until the controller ends."""
    kind, listener = DoorKind(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
    settings = _Settings(sys.stdin.buffer)
    log.configure(settings.current.log.level, settings.current.log.format)
    settings.follow()
    return server.main(settings.current, kind, lambda: settings.current, listener=listener)


if __name__ == "__main__":
    sys.exit(main())
