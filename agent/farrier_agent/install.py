"""Puts the agent into the system as a service, and removes it without leaving anything."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from farrier_agent.host import CONFIG, STATE, Host, run, say

PROGRAM = "/opt/farrier-agent/farrier-agent.pyz"
_UNITS = "/etc/systemd/system"
_SETUP = "farrier-agent-setup.service"  # downloads the agent; the shipped cloud-init template writes it
_HOOKS = ("/etc/farrier-agent/drain.d", "/etc/farrier-agent/release.d")
_SYSTEMCTL_TIMEOUT = 60.0  # seconds

UNIT = f"""\
[Unit]
Description=farrier-agent, reports this machine's health to farrier and performs farrier's tasks
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/python3 {PROGRAM} run
Restart=on-failure
RestartSec=10
RuntimeDirectory=farrier-agent
RuntimeDirectoryPreserve=yes
UMask=0077
Nice=10

[Install]
WantedBy=multi-user.target
"""


def install(host: Host) -> None:
    """Copy the program, and start the service with the configuration that is there. May be repeated."""
    host.config()
    source = os.path.realpath(sys.argv[0])
    for directory in (os.path.dirname(PROGRAM), *_HOOKS):
        os.makedirs(host.path(directory), mode=0o755, exist_ok=True)
    if source != os.path.realpath(host.path(PROGRAM)):
        shutil.copyfile(source, host.path(f"{PROGRAM}.new"))
        os.replace(host.path(f"{PROGRAM}.new"), host.path(PROGRAM))
    os.makedirs(host.path(_UNITS), exist_ok=True)
    with open(host.path(f"{_UNITS}/farrier-agent.service"), "w") as file:
        file.write(UNIT)
    _systemctl("disable", "--no-block", _SETUP)
    for path in (f"{_UNITS}/{_SETUP}", "/etc/farrier-agent/setup.py"):
        Path(host.path(path)).unlink(missing_ok=True)
    _systemctl("daemon-reload")
    _systemctl("enable", "farrier-agent.service")
    _systemctl("restart", "--no-block", "farrier-agent.service")


def uninstall(host: Host) -> None:
    """Remove the unit, the program, the configuration, the hooks and the key. Raises OSError if something stays."""
    _systemctl("disable", "farrier-agent.service")
    for name in ("farrier-agent.service", _SETUP):
        Path(host.path(f"{_UNITS}/{name}")).unlink(missing_ok=True)
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
