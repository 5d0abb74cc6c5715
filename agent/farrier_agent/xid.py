"""XID errors, which NVIDIA's driver writes to the kernel's log.

Sources: NVIDIA, XID Errors, "Analyzing Xid Errors with the Xid Catalog" (column Immediate Action); the kernel's
Documentation/ABI/testing/dev-kmsg (records, EPIPE, EAGAIN).
"""

from __future__ import annotations

import os
import re
import time

from farrier_agent.conditions import NOTE, QUARANTINE, Condition, condition
from farrier_agent.host import Host

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?((?i:[\da-f]{4,8}:[\da-f]{2}:[\da-f]{2}))[^)]*\): (\d{1,4}),?\s*(.*)")
_EFFECTS: dict[int, str] = {
    # Immediate action RESET_GPU, RESTART_BM, CHECK_MECHANICALS or a workflow that begins by draining the GPU (48, 74).
    **dict.fromkeys((46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158), QUARANTINE),
    # Immediate action IGNORE, and the sign of an event that another rule reports: 63 is the collector's row remapping.
    **dict.fromkeys((14, 43, 45, 63, 106, 107), ""),
}
_NVLINK5 = frozenset(range(144, 151))  # the text says Fatal or Nonfatal
_ACTION_CHANGED = 154  # the text names the action that the GPU now needs
_NOTE_LASTS = 3600.0  # seconds since the last event; a note tells of a program's fault, not of the machine's
_MOST_RECORDS = 5000  # of one reading, which then takes about 40 ms; a thousand a second are read completely
_MOST_KINDS = 64  # pairs of GPU and XID, beyond which no note is added
_RECORD = 8192  # bytes; the kernel's largest record


class Xids:
    """The XID events since the machine was started: the newest of each GPU and number."""

    def __init__(self, host: Host) -> None:
        self._seen: dict[tuple[str, int], tuple[float, str, str]] = {}
        self._lost_at = -_NOTE_LASTS
        try:
            self._fd = os.open(host.path("/dev/kmsg"), os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            self._fd = -1  # `conditions` says it

    def read(self) -> None:
        """Read the new records of the log, a bounded number; skip the rest, and remember that it was skipped."""
        count = 0
        while count < _MOST_RECORDS:
            try:
                records = os.read(self._fd, _RECORD).decode("utf-8", "replace").splitlines()
            except BrokenPipeError:
                records, self._lost_at = [""], time.monotonic()
            except OSError:
                return  # EAGAIN: nothing new
            if not records:
                return
            for each in records:
                self._take(each)
            count += len(records)
        self._lost_at = time.monotonic()
        os.lseek(self._fd, 0, os.SEEK_END)

    def _take(self, record: str) -> None:
        found = _XID.search(record)
        if found is not None:
            key, text = (found[1].lower(), int(found[2])), found[3][:160]
            effect = _effect(key[1], text)
            self._seen.pop(key, None)
            if effect == QUARANTINE or (effect and len(self._seen) < _MOST_KINDS):
                self._seen[key] = (time.monotonic(), effect, text)

    def conditions(self, serials: dict[str, str]) -> list[Condition]:
        """Return the conditions. `serials` are the serial numbers of GPUs by PCI address, as far as NVML names them."""
        found, since = [], time.monotonic() - _NOTE_LASTS
        for (pci, number), (seen_at, effect, text) in self._seen.items():
            if effect == QUARANTINE or seen_at > since:
                target = next((serial for address, serial in serials.items() if address.startswith(pci)), pci)
                found.append(condition(f"gpu/xid-{number}", f"XID {number} of GPU {pci}: {text}", effect, target))
        if self._fd < 0 or self._lost_at > since:
            found.append(condition("gpu/xid-unread", "a part of the kernel's log was not read; XIDs may be missing"))
        return found


def _effect(number: int, text: str) -> str:
    """Return the effect of an XID; nothing if it has none, or ends that of an earlier one."""
    if number == _ACTION_CHANGED:
        return "" if "(None)" in text.rpartition(" to ")[2] else QUARANTINE
    if number in _NVLINK5:
        return QUARANTINE if re.search(r"\bFatal\b", text) else NOTE
    return _EFFECTS.get(number, NOTE)
