"""Puts the agent into the system as a service, and removes it without leaving anything."""

from __future__ import annotations

import os
import pkgutil
import shutil
import sys
from pathlib import Path

from farrier_agent.host import CONFIG, STATE, Host, run, say

PROGRAM = "/opt/farrier-agent/farrier-agent.pyz"
_UNITS = "/etc/systemd/system"
_SERVICE = "farrier-agent.service"  # the unit is the file of this name beside this module
_SETUP = "farrier-agent-setup.service"  # downloads the agent; the shipped cloud-init template writes it
_SYSTEMCTL_TIMEOUT = 60.0  # seconds


def install(host: Host) -> None:
    """Copy the program, and start the service with the configuration that is there. May be repeated."""
    host.config()
    program, unit = Path(host.path(PROGRAM)), Path(host.path(f"{_UNITS}/{_SERVICE}"))
    for file in (program, unit):
        file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(os.path.realpath(sys.argv[0]), f"{program}.new")
    os.replace(f"{program}.new", program)
    unit.write_bytes(pkgutil.get_data("farrier_agent", _SERVICE) or b"")
    _systemctl("disable", "--no-block", _SETUP)
    for path in (f"{_UNITS}/{_SETUP}", "/etc/farrier-agent/setup.py"):
        Path(host.path(path)).unlink(missing_ok=True)
    _systemctl("daemon-reload")
    _systemctl("enable", _SERVICE)
    _systemctl("restart", "--no-block", _SERVICE)


def uninstall(host: Host) -> None:
    """Remove the unit, the program, the configuration, the hooks and the key. Raises OSError if something stays."""
    _systemctl("disable", _SERVICE)
    Path(host.path(f"{_UNITS}/{_SERVICE}")).unlink(missing_ok=True)
    _systemctl("daemon-reload")
    for directory in (os.path.dirname(PROGRAM), os.path.dirname(CONFIG), "/run/farrier-agent", STATE):
        if os.path.lexists(host.path(directory)):
            shutil.rmtree(host.path(directory))
    # farrier may cut the power as soon as it knows that the agent is gone.
    os.sync()


def _systemctl(*command: str) -> None:
    """Run systemctl. A machine without systemd runs the agent by another program."""
    done = run("systemctl", *command, timeout=_SYSTEMCTL_TIMEOUT)
    if done is not None and done.returncode and command[0] != "disable":
        say(f"systemctl {' '.join(command)} failed: {done.stdout.strip()[:200]}")
