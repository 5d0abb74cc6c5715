"""The power of a system of sushy-emulator, which is a process of QEMU.

The emulator's configuration, which is Python code, calls `install`; this module runs in the emulator's process.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import flask
import msgspec
from sushy_tools.emulator.resources.systems import fakedriver

ROOT = Path(__file__).parents[3]
# QEMU responds in milliseconds; a busy computer needs longer.
PATIENCE_SECONDS = 20.0


def configuration(command: Path, *, serial: str) -> str:
    """The lines of the emulator's configuration that give its system the power and the serial number of a machine. Each
    power-on runs the command in the file, a list in JSON."""
    return (
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.support.machine import power\npower.install({str(command)!r}, {serial!r})\n"
    )


def install(command: str, serial: str) -> None:
    """Replace the power of the emulator's fake systems, and add the serial number that its template lacks."""
    process = Process(Path(command))

    def is_on(_: object, identity: str) -> str:
        return "On" if process.runs() else "Off"

    def switch(_: object, identity: str, state: str) -> None:
        process.switch(state)

    fakedriver.FakeDriver.get_power_state = is_on
    fakedriver.FakeDriver.set_power_state = switch

    def numbered(response: flask.Response) -> flask.Response:
        content: Any = response.get_json(silent=True)
        if isinstance(content, dict) and "PowerState" in content:
            response.set_data(msgspec.json.encode(content | {"SerialNumber": serial}))
        return response

    sys.modules["__main__"].app.after_request(numbered)


class Process:
    """The process that exists while the machine has power."""

    def __init__(self, command: Path) -> None:
        self._command = command
        self._monitor = command.with_name("qmp")
        self._process: subprocess.Popen[bytes] | None = None
        # The kernel ends QEMU with the thread that started it: threads that serve requests end too early.
        self._thread = ThreadPoolExecutor(max_workers=1)

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def switch(self, state: str) -> None:
        """Do what a reset type of Redfish asks for."""
        match state, self.runs():
            case (("On" | "ForceOn" | "ForceRestart" | "GracefulRestart"), False):
                self._thread.submit(self._start).result()
            case "ForceOff", True:
                self._thread.submit(self._stop).result()
            case "GracefulShutdown", True:
                self._tell("system_powerdown")
            case (("ForceRestart" | "GracefulRestart"), True):
                self._tell("system_reset")
            case _:
                pass

    def _start(self) -> None:
        command = msgspec.json.decode(self._command.read_bytes(), type=list[str])
        monitor = ("-qmp", f"unix:{self._monitor},server=on,wait=off")
        with_parent = ("setpriv", "--pdeathsig", "KILL", "--")
        # What QEMU prints is in the emulator's log.
        self._process = subprocess.Popen([*with_parent, *command, *monitor], stdin=subprocess.DEVNULL)

    def _stop(self) -> None:
        assert self._process is not None, "the machine is on"
        self._process.kill()
        self._process.wait()

    def _tell(self, command: str) -> None:
        """Run a command of QEMU's monitor."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.connect(str(self._monitor))
            with connection.makefile("rwb") as stream:
                stream.readline()  # a greeting
                for each in ("qmp_capabilities", command):
                    stream.write(msgspec.json.encode({"execute": each}))
                    stream.flush()
                    while "return" not in (answer := msgspec.json.decode(stream.readline())):
                        assert "error" not in answer, answer
