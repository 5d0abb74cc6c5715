"""The scripts of a MAAS region, and the results of their runs.

Package `farrier.services` creates these values, and handlers read them. MAAS selects testing scripts by name or by tag
(maasserver/models/scriptset.py:328), so one name may stand for several scripts. Each text of a script has a revision
with an ID of its own, and each result has the revision that ran (maasserver/models/scriptresult.py:336).
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any

import msgspec

TESTING = 2
"""The number of the type `testing` (metadataserver/enum.py:47)."""


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """One text of a script. `data` is the text in base64; it is absent unless the request asks for texts."""

    id: int
    data: str | None = None


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A script, with its revisions, newest first."""

    name: str
    type: int
    tags: tuple[str, ...] = ()
    history: tuple[Revision, ...] = ()
    for_hardware: tuple[str, ...] = ()
    packages: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None

    @property
    def revision(self) -> int | None:
        """The ID of the text that MAAS would run now."""
        return self.history[0].id if self.history else None

    @property
    def text(self) -> bytes | None:
        """The text that MAAS would run now; None if the region did not send it."""
        return decoded(self.history[0].data) if self.history else None

    def has(self, text: str) -> bool:
        """Return whether this is the text that MAAS would run now. MAAS may strip the ends of a text."""
        return self.text is not None and self.text.strip() == text.encode().strip()

    @property
    def is_plain(self) -> bool:
        """Whether the script runs as it is: on all hardware, without packages and parameters."""
        return self.type == TESTING and not (self.for_hardware or self.packages or self.parameters)


class ScriptResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one script. `stdout` is in base64; it is absent unless the request asks for output."""

    name: str
    status_name: str | None = None
    script_revision_id: int | None = None
    exit_status: int | None = None
    stdout: str | None = None

    @property
    def output(self) -> bytes | None:
        """What the script printed; None if the region did not send it."""
        return decoded(self.stdout)


class ScriptSet(msgspec.Struct, frozen=True, kw_only=True):
    """One round of commissioning, testing or installation scripts. Later rounds have higher IDs."""

    id: int
    status_name: str | None = None
    results: tuple[ScriptResult, ...] = ()


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A testing script to store in a region. Its other properties stand in its text."""

    name: str
    text: str
    tags: tuple[str, ...] = ()
    comment: str = ""


class TestRun(msgspec.Struct, frozen=True, kw_only=True):
    """A test that a workflow requests, recorded before the request. `after` is the ID of the machine's newest round of
    testing scripts at that time; `sha256` is the digest of the script's text."""

    script: str
    revision: int
    sha256: str
    after: int
    at: datetime


def fault(name: str, text: str | None, scripts: tuple[Script, ...]) -> str | None:
    """Return what is wrong with the scripts that MAAS runs for this name; None if it runs one script, with this
    text."""
    script = next((each for each in scripts if each.name == name), None)
    if script is None:
        return f"MAAS has no testing script {name}"
    others = [each.name for each in scripts if each.name != name]
    if others:
        return f"MAAS would also run {', '.join(others)[:200]}, which has the tag {name}; remove this tag"
    if script.revision is None or script.text is None:
        return f"MAAS does not show the text of script {name}"
    if text is not None and not script.is_plain:
        return f"script {name} in MAAS needs packages, parameters or certain hardware, or is not a testing script"
    if text is not None and not script.has(text):
        return f"script {name} in MAAS (revision {script.revision}) is not farrier's"
    return None


def newest(sets: tuple[ScriptSet, ...]) -> int:
    """Return the ID of the newest round; 0 if there is none."""
    return max((each.id for each in sets), default=0)


def decoded(data: str | None) -> bytes | None:
    """Return the bytes of a field in base64; None if it is absent or damaged."""
    if data is None:
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
