"""Programs of Debian packages that some tests run. A test without its program is skipped, but fails in CI."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

# Programs for administrators, which are not in every user's path.
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/bin", "/usr/bin", "/usr/sbin", "/sbin"))
PACKAGES = {
    "amtool": "prometheus-alertmanager",
    "debugfs": "e2fsprogs",
    "e2fsck": "e2fsprogs",
    "genext2fs": "genext2fs",
    "mmdebstrap": "mmdebstrap",
    "pgbouncer": "pgbouncer",
    "prometheus": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "promtool": "prometheus",
    "qemu-system-x86_64": "qemu-system-x86",
    "resize2fs": "e2fsprogs",
    "socat": "socat",
    "systemd-analyze": "systemd",
    "systemd-sysusers": "systemd",
    "tune2fs": "e2fsprogs",
}


def program(name: str) -> str:
    """The program's path. To be called outside of task groups: a skip inside a task group ends the test runner."""
    found = shutil.which(name, path=_PATH)
    return found or lacks(f"{name} is not installed", PACKAGES[name])


def postgresql(version: int, variable: str) -> Path:
    """The directory of PostgreSQL's programs that this environment variable names."""
    named = os.environ.get(variable)
    return Path(named) if named else lacks(f"{variable} is not set", f"postgresql-{version}")


def lacks(what: str, package: str) -> NoReturn:
    complaint = f"{what}; on Debian: apt-get install {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(complaint)
    pytest.skip(complaint)
