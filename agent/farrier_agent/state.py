"""What the agent keeps on the machine: its key, whether a token was spent for it, and which devices it has cleaned."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from typing import Any

from farrier_agent.host import STATE, AgentError, Host


class State:
    """The files below /var/lib/farrier-agent. Only root can read them."""

    def __init__(self, host: Host) -> None:
        self._directory = host.path(STATE)
        self._host = host

    def key(self) -> str | None:
        return self._host.text(f"{STATE}/key") or None

    def new_key(self) -> str:
        """Make a key, and write it. Raises AgentError, for example if the disk is full."""
        made = f"fak_{secrets.token_hex(32)}"
        self._write("key", made)
        return made

    def is_spent(self, token: str) -> bool:
        """Whether this token has enrolled the agent, so that it cannot enrol it again with another key."""
        return not token or self._host.text(f"{STATE}/enrolled") == digest(token)

    def spend(self, token: str) -> None:
        self._write("enrolled", digest(token))

    def cleaned(self) -> list[str]:
        """Return the serial numbers of the disks that a task has begun to erase since the last drain."""
        return [str(each) for each in json.loads(self._host.text(f"{STATE}/cleaned", "[]"))]

    def clean(self, serials: list[str]) -> None:
        self._write("cleaned", json.dumps(serials))

    def _write(self, name: str, content: str) -> None:
        """Replace a file, so that a power cut leaves the old or the new content."""
        path = os.path.join(self._directory, name)
        try:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            with open(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(f"{path}.new", path)
            directory = os.open(self._directory, os.O_RDONLY)
            os.fsync(directory)  # so that a power cut does not undo the replacement
            os.close(directory)
        except OSError as error:
            raise AgentError(
                f"{STATE}/{name} cannot be written: {error.strerror}; free space or make it writable"
            ) from None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(facts: Any) -> str:
    """Return the digest of facts, which does not depend on the order of keys."""
    return digest(json.dumps(facts, sort_keys=True, separators=(",", ":")))
