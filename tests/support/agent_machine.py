"""A machine on which farrier-agent.pyz runs: a directory with the files of /proc, /sys, /etc and /dev that it reads."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BOOT_ID = "11111111-2222-4333-8444-555555555555"
# The kernel writes zeros for blkdiscard only to block devices, and the disks here are files.
ZEROOUT = 'for disk; do :; done; head -c "$(stat -c %s "$disk")" /dev/zero > "$disk"'
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
TIMEOUT = 60.0


class Machine:
    """One machine. Programs in `bin` come before those of the system; there is no systemctl but the one of a test."""

    def __init__(self, root: Path, archive: Path, python: str) -> None:
        self.root = root
        self.bin = root / "stand-ins"
        self.bin.mkdir()
        self._archive, self.python = archive, python
        self.environment: dict[str, str] = {}
        self.write("/proc/sys/kernel/random/boot_id", BOOT_ID)
        self.write("/proc/uptime", "1200.5 100.0")
        self.write("/proc/sys/kernel/osrelease", "6.8.0-45-generic")
        self.write("/proc/self/mounts", "overlay / overlay rw 0 0\n")
        self.write("/sys/class/dmi/id/product_serial", "SN-4711")
        self.write("/sys/class/dmi/id/product_uuid", "4c4c4544-0035-4a10-8052-b4c04f4a4b33")
        self.write("/dev/kmsg", "")
        self.tool("blkdiscard", ZEROOUT)
        self.tool("systemctl", 'echo "$@" >> "$(dirname "$0")/systemctl.log"')

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> Path:
        """Write a file of the machine."""
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        place.chmod(mode)
        return place

    def tool(self, name: str, script: str) -> Path:
        """Install a program, which is a shell script."""
        place = self.bin / name
        place.write_text(f"#!/bin/sh\n{script}\n")
        place.chmod(0o755)
        return place

    def gpu(self, pci: str) -> None:
        """Put an NVIDIA GPU on the PCI bus."""
        self.write(f"/sys/bus/pci/devices/{pci}/vendor", "0x10de")
        self.write(f"/sys/bus/pci/devices/{pci}/class", "0x030200")

    def disk(self, name: str, serial: str, content: bytes) -> Path:
        """Put a disk with this content into the machine; its size is that of the content."""
        self.write(f"/sys/block/{name}/size", str(len(content) // 512))
        self.write(f"/sys/block/{name}/device/serial", serial)
        self.write(f"/sys/block/{name}/device/model", "stand-in")
        return self.write(f"/dev/{name}", content)

    def configure(self, url: str, token: str = "fbt_1", **more: Any) -> None:
        """Write the configuration, as the shipped template of user data does."""
        given: dict[str, Any] = {"url": url, "token": token, **more}
        self.write("/etc/farrier-agent/config.json", json.dumps(given), 0o600)

    def start(self) -> subprocess.Popen[str]:
        """Start the agent."""
        return subprocess.Popen(self._command("run"), stderr=subprocess.PIPE, text=True, env=self._environment())

    def run(self, *arguments: str, timeout: float = TIMEOUT) -> subprocess.CompletedProcess[str]:
        """Run one command of the agent."""
        return subprocess.run(
            self._command(*arguments),
            capture_output=True,
            text=True,
            env=self._environment(),
            timeout=timeout,
            check=False,
        )

    def script(self, text: str, *arguments: str) -> str:
        """Run a script that imports the agent's modules from the archive, and return its output."""
        environment = self._environment() | {"PYTHONPATH": str(self._archive)}
        command = [self.python, "-c", text, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=TIMEOUT, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def collect(self) -> dict[str, Any]:
        """Return the facts and conditions that the agent prints."""
        done = self.run("collect")
        assert done.returncode == 0, done.stderr
        collected: dict[str, Any] = json.loads(done.stdout)
        return collected

    def conditions(self) -> dict[str, Mapping[str, str]]:
        """Return the conditions that the agent prints, by ID."""
        return {each["id"]: each for each in self.collect()["conditions"]}

    def _command(self, *arguments: str) -> list[str]:
        return [self.python, str(self._archive), "--root", str(self.root), *arguments]

    def _environment(self) -> dict[str, str]:
        path = f"{self.bin}:{PATH}"
        return {"PATH": path, "PYTHONWARNINGS": "error", **self.environment}
