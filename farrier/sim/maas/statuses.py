"""The statuses of a machine in MAAS, with their numbers, their labels, and the operations that they allow.

The modules of the simulated region that handle machines use these statuses. The numbers and words are those of MAAS;
clients rely on the numbers. This module only defines statuses; the operations check them.
"""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """A machine's status, with the number that MAAS gives it. The name is its spelling in a list filter."""

    NEW = 0
    COMMISSIONING = 1
    FAILED_COMMISSIONING = 2
    MISSING = 3
    READY = 4
    RESERVED = 5
    DEPLOYED = 6
    RETIRED = 7
    BROKEN = 8
    DEPLOYING = 9
    ALLOCATED = 10
    FAILED_DEPLOYMENT = 11
    RELEASING = 12
    FAILED_RELEASING = 13
    DISK_ERASING = 14
    FAILED_DISK_ERASING = 15
    RESCUE_MODE = 16
    ENTERING_RESCUE_MODE = 17
    FAILED_ENTERING_RESCUE_MODE = 18
    EXITING_RESCUE_MODE = 19
    FAILED_EXITING_RESCUE_MODE = 20
    TESTING = 21
    FAILED_TESTING = 22

    @property
    def label(self) -> str:
        """The text of `status_name` in responses."""
        return _IRREGULAR.get(self) or self.name.replace("_", " ").capitalize()


_IRREGULAR = {
    Status.FAILED_RELEASING: "Releasing failed",
    Status.FAILED_ENTERING_RESCUE_MODE: "Failed to enter rescue mode",
    Status.FAILED_EXITING_RESCUE_MODE: "Failed to exit rescue mode",
}

COMMISSIONABLE = frozenset({Status.NEW, Status.FAILED_COMMISSIONING, Status.READY, Status.BROKEN})
RELEASABLE = frozenset(
    {
        Status.ALLOCATED,
        Status.RESERVED,
        Status.BROKEN,
        Status.DEPLOYING,
        Status.DEPLOYED,
        Status.FAILED_DEPLOYMENT,
        Status.FAILED_DISK_ERASING,
        Status.FAILED_RELEASING,
    }
)
RESCUE = frozenset(
    {
        Status.RESCUE_MODE,
        Status.ENTERING_RESCUE_MODE,
        Status.FAILED_ENTERING_RESCUE_MODE,
        Status.EXITING_RESCUE_MODE,
        Status.FAILED_EXITING_RESCUE_MODE,
    }
)
RESCUABLE = frozenset(
    {
        Status.NEW,
        Status.FAILED_COMMISSIONING,
        Status.MISSING,
        Status.READY,
        Status.RESERVED,
        Status.DEPLOYED,
        Status.RETIRED,
        Status.BROKEN,
        Status.ALLOCATED,
        Status.FAILED_DEPLOYMENT,
        Status.FAILED_DISK_ERASING,
        Status.ENTERING_RESCUE_MODE,
        Status.FAILED_ENTERING_RESCUE_MODE,
        Status.FAILED_TESTING,
    }
)
NETWORK_EDITABLE = frozenset({Status.NEW, Status.READY, Status.FAILED_TESTING, Status.ALLOCATED, Status.BROKEN})
FAILS_AS = {
    Status.COMMISSIONING: Status.FAILED_COMMISSIONING,
    Status.DEPLOYING: Status.FAILED_DEPLOYMENT,
    Status.RELEASING: Status.FAILED_RELEASING,
    Status.DISK_ERASING: Status.FAILED_DISK_ERASING,
    Status.ENTERING_RESCUE_MODE: Status.FAILED_ENTERING_RESCUE_MODE,
    Status.EXITING_RESCUE_MODE: Status.FAILED_EXITING_RESCUE_MODE,
    Status.TESTING: Status.FAILED_TESTING,
}
