"""XID errors, which NVIDIA's driver writes to the kernel's log.

Sources: NVIDIA, XID Errors, "Analyzing Xid Errors with the Xid Catalog" (column Immediate Action); the kernel's
Documentation/ABI/testing/dev-kmsg (records, EPIPE, EAGAIN).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping

from farrier_agent.conditions import NOTE, QUARANTINE, Condition, condition
from farrier_agent.host import Host

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})[^)]*\): (\d{1,4}),?\s*(.*)", re.DOTALL
)
# Immediate action RESET_GPU, RESTART_BM, CHECK_MECHANICALS or a workflow that begins by draining the GPU (48, 74).
_ENDS_SERVICE = frozenset({46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158})
# Immediate action IGNORE, and the sign of an event that another rule reports: 63 is the collector's row remapping.
_SAYS_NOTHING = frozenset({14, 43, 45, 63, 106, 107})
_NVLINK5 = frozenset(range(144, 151))  # the text says Fatal or Nonfatal
_ACTION_CHANGED = 154  # the text names the action that the GPU now needs
_NOTE_LASTS = 3600.0  # seconds since the last event; a note tells of a program's fault, not of the machine's
_MOST_RECORDS = 5000  # of one reading, which then takes about 40 ms; a thousand a second are read completely
_MOST_KINDS = 64  # pairs of GPU and XID
_RECORD = 8192  # bytes; the kernel's largest record


class Xids:
    """The XID events since the machine was started, by GPU and number."""

    def __init__(self, host: Host, path: str = "/dev/kmsg") -> None:
        self._seen: dict[tuple[str, int], tuple[str, int, float, str]] = {}
        self._lost_at: float | None = None
        self._fd = -1
        try:
            self._fd = os.open(host.path(path), os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            pass  # `conditions` says it

    def read(self) -> None:
        """Read the new records of the log, a bounded number; skip the rest, and remember that it was skipped."""
        count = 0
        while count < _MOST_RECORDS:
            try:
                record = os.read(self._fd, _RECORD)
            except BrokenPipeError:
                self._lost_at = time.monotonic()
                count += 1
                continue
            except OSError:
                return  # EAGAIN: nothing new
            if not record:
                return
            for line in record.decode("utf-8", "replace").splitlines():
                self.take(line)
                count += 1
        self._lost_at = time.monotonic()
        os.lseek(self._fd, 0, os.SEEK_END)

    def take(self, record: str) -> None:
        found = _XID.search(record) if "NVRM: Xid" in record else None
        if found is None:
            return
        key = (found[1].lower(), int(found[2]))
        effect = _effect(key[1], found[3])
        if key[1] == _ACTION_CHANGED and effect == NOTE:
            self._seen.pop(key, None)  # the GPU needs no action any more
        elif effect and (key in self._seen or len(self._seen) < _MOST_KINDS):
            count = self._seen[key][1] + 1 if key in self._seen else 1
            self._seen[key] = (effect, count, time.monotonic(), found[3].partition("\n")[0][:160])

    def conditions(self, serials: Mapping[str, str]) -> list[Condition]:
        """Return the conditions. `serials` are the serial numbers of GPUs by PCI address, as far as NVML names them."""
        now = time.monotonic()
        if self._fd < 0:
            return [condition("gpu/xid-unread", "/dev/kmsg cannot be read, so XID errors are not seen")]
        found = []
        for (pci, number), (effect, count, seen_at, text) in self._seen.items():
            if effect == NOTE and now - seen_at > _NOTE_LASTS:
                continue
            target = next((serial for address, serial in serials.items() if address.startswith(pci)), pci)
            message = f"XID {number} of GPU {pci}{_times(count)}: {text}"
            found.append(condition(f"gpu/xid-{number}", message, effect, target))
        if self._lost_at is not None and now - self._lost_at < _NOTE_LASTS:
            found.append(condition("gpu/xid-skipped", "the kernel's log grew too fast; a part of it was not read"))
        return found


def _effect(number: int, text: str) -> str:
    if number in _SAYS_NOTHING:
        return ""
    if number == _ACTION_CHANGED:
        return NOTE if "(None)" in text.rpartition(" to ")[2] else QUARANTINE
    if number in _NVLINK5:
        return QUARANTINE if re.search(r"\bFatal\b", text) else NOTE
    return QUARANTINE if number in _ENDS_SERVICE else NOTE


def _times(count: int) -> str:
    """Return a count that seldom changes, because each change is another message."""
    return "" if count == 1 else f", at least {10 ** (len(str(count)) - 1)} times" if count >= 10 else ", several times"
