"""The machine: files below a root directory, programs of its PATH, and the agent's configuration."""

from __future__ import annotations

import ctypes
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

CONFIG = "/etc/farrier-agent/config.json"
STATE = "/var/lib/farrier-agent"
_LARGEST_READ = 64 * 1024  # bytes; a file of /sys or /proc that the agent reads is smaller
_LARGEST_CONFIG = 256 * 1024  # bytes
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class AgentError(Exception):
    """A foreseen failure. Its text is one line that states what was expected, and what to do."""


@dataclass(frozen=True)
class Config:
    """The configuration. Fields without a default in `config.json` are documented in docs/agent.md."""

    url: str = ""
    ca: str = ""
    token: str = ""
    gpus: int | None = None
    links: Mapping[str, float] = field(default_factory=dict)
    cleaning_by: str = ""
    wipe: Sequence[str] = ("format", "zeroout", "write")
    wipe_seconds: float = 4 * 3600
    drain_seconds: float = 3600
    metadata: Sequence[str] = ("http://169.254.169.254/",)
    timeouts: Mapping[str, float] = field(default_factory=dict)


_KINDS: Mapping[str, Any] = {
    "gpus": int, "links": dict, "wipe": list, "metadata": list, "timeouts": dict,
    "wipe_seconds": (int, float), "drain_seconds": (int, float),
}  # fmt: skip


class Host:
    """The machine below `root`, which is `/` except in a container or a test."""

    def __init__(self, root: str = "/") -> None:
        self.root = root.rstrip("/")

    def path(self, path: str) -> str:
        return self.root + path

    def text(self, path: str, default: str = "") -> str:
        """Return the content of a file without blanks at its ends; `default` if it cannot be read."""
        try:
            with open(self.path(path), "rb") as file:
                return file.read(_LARGEST_READ).decode("utf-8", "replace").strip("\0 \t\r\n")
        except OSError:
            return default

    def number(self, path: str) -> int | None:
        try:
            return int(self.text(path), 0)
        except ValueError:
            return None

    def glob(self, pattern: str) -> list[str]:
        return [path[len(self.root) :] for path in sorted(glob.glob(self.path(pattern)))]

    def config(self, path: str = CONFIG) -> Config:
        """Return the configuration. Raises AgentError with one line."""
        try:
            with open(self.path(path), "rb") as file:
                given = json.loads(file.read(_LARGEST_CONFIG))
        except (OSError, ValueError) as error:
            raise AgentError(f"{path} cannot be used: {error}; write it as docs/agent.md of farrier says") from None
        known = {each.name for each in fields(Config)}
        if not isinstance(given, dict) or not given.keys() <= known:
            raise AgentError(f"{path}: expected an object with only the keys {', '.join(sorted(known))}")
        for name, value in given.items():
            kind = _KINDS.get(name, str)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise AgentError(f"{path}: {name} has an invalid type, {type(value).__name__}")
        return Config(**given)


def run(*command: str, timeout: float) -> subprocess.CompletedProcess[str] | None:
    """Run a program, which ends with this process; None if it is not installed. Raises AgentError after `timeout`.

    The program inherits the pipe of `jobs.Job`, so a program that cannot be killed keeps its job unfinished. Nothing
    waits for such a program, nor for its children.
    """
    if shutil.which(command[0]) is None:
        return None
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", close_fds=False, start_new_session=True, preexec_fn=end_with_parent,
        )  # fmt: skip
    except OSError as error:
        raise AgentError(f"{command[0]} cannot be started: {error}") from None
    try:
        said, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise AgentError(f"{' '.join(command)} did not end within {timeout:.0f} s") from None
    return subprocess.CompletedProcess(command, process.returncode, said)


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, so that no job outlives the agent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def last_line(text: str) -> str:
    """Return the last line that is not empty, for a message."""
    return next((line.strip()[:200] for line in reversed(text.splitlines()) if line.strip()), "no output")


def remove(path: str) -> None:
    """Remove a file, if it exists."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def settle(directory: str) -> None:
    """Write the entries of a directory to its disk, so that a power cut does not undo their changes."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def say(text: str) -> None:
    """Write one line to the journal."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    try:
        sys.stderr.write(f"farrier-agent: {line[:1000]}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # a journal that is full must not end the agent
