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
from dataclasses import dataclass, field, fields

CONFIG = "/etc/farrier-agent/config.json"
STATE = "/var/lib/farrier-agent"
_LARGEST_READ = 64 * 1024  # bytes; the files that the agent reads are smaller
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class AgentError(Exception):
    """A foreseen failure. Its text is one line that states what was expected, and what to do."""


@dataclass(frozen=True)
class Config:
    """The configuration. Fields without a default in `config.json` are documented in docs/operate/agent.md."""

    url: str = ""
    ca: str = ""
    token: str = ""
    gpus: int = 0
    links: dict[str, float] = field(default_factory=dict)
    cleaning_by: str = ""
    wipe: list[str] = field(default_factory=lambda: ["format", "zeroout"])
    wipe_seconds: int = 4 * 3600
    drain_seconds: int = 3600
    timeouts: dict[str, float] = field(default_factory=dict)


class Host:
    """The machine below `root`, which is `/` except in a container or a test."""

    def __init__(self, root: str = "/") -> None:
        self.root = root.rstrip("/")

    def path(self, path: str) -> str:
        return self.root + path

    def content(self, path: str, most: int = _LARGEST_READ) -> bytes:
        """Return the content of a file; nothing if it cannot be read."""
        try:
            with open(self.path(path), "rb") as file:
                return file.read(most)
        except OSError:
            return b""

    def text(self, path: str) -> str:
        """Return the content of a file without blanks at its ends; nothing if it cannot be read."""
        return self.content(path).decode("utf-8", "replace").strip("\0 \t\r\n")

    def number(self, path: str) -> int | None:
        try:
            return int(self.text(path), 0)
        except ValueError:
            return None

    def glob(self, pattern: str) -> list[str]:
        return [path[len(self.root) :] for path in sorted(glob.glob(self.path(pattern)))]

    def keep(self, name: str, content: str) -> None:
        """Replace a file below STATE, which only root can read, so that a power cut leaves the old or the new content.

        Raises AgentError, for example if the disk is full.
        """
        directory = self.path(STATE)
        path = os.path.join(directory, name)
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            with open(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(f"{path}.new", path)
            entries = os.open(directory, os.O_RDONLY)
            os.fsync(entries)  # so that a power cut does not undo the replacement
            os.close(entries)
        except OSError as error:
            said = f"{STATE}/{name} cannot be written: {error.strerror}; free space or make it writable"
            raise AgentError(said) from None

    def config(self) -> Config:
        """Return the configuration. Raises AgentError with one line."""
        try:
            with open(self.path(CONFIG), "rb") as file:
                given = json.loads(file.read(_LARGEST_READ))
            config = Config(**given)
        except (OSError, ValueError, TypeError) as error:
            raise AgentError(f"{CONFIG} cannot be used: {error}; write it as docs/operate/agent.md says") from None
        for each in fields(Config):
            usual, value = getattr(Config(), each.name), getattr(config, each.name)
            if not isinstance(value, type(usual)):
                raise AgentError(f"{CONFIG}: {each.name} has an invalid type, {type(value).__name__}")
        return config


def run(*command: str, timeout: float) -> subprocess.CompletedProcess[str] | None:
    """Run a program, which ends with this process; None if it is not installed. Raises AgentError after `timeout`.

    The program inherits the pipe of `jobs.Job`, so a program that cannot be killed keeps its job unfinished. Nothing
    waits for such a program, nor for its children.
    """
    if shutil.which(command[0]) is None:
        return None
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", close_fds=False, start_new_session=True, preexec_fn=end_with_parent,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise AgentError(f"{' '.join(command)} did not end within {timeout:.0f} s") from None
    return subprocess.CompletedProcess(command, process.returncode, said)


def tool(*command: str, timeout: float) -> None:
    """Run a program that has to be there and to succeed. Raises AgentError."""
    done = run(*command, timeout=timeout)
    if done is None:
        raise AgentError(f"{command[0]} is not installed")
    if done.returncode:
        last = (done.stdout.strip() or "no output").splitlines()[-1]
        raise AgentError(f"{os.path.basename(command[0])}: exit code {done.returncode}: {last[:200]}")


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, so that no job outlives the agent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def say(text: str) -> None:
    """Write one line to the journal."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    try:
        print(f"farrier-agent: {line[:1000]}", file=sys.stderr, flush=True)
    except OSError:
        pass  # a journal that is full must not end the agent
