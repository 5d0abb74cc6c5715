"""The statuses of a machine that allow an operation of MAAS, and the status in which failed work ends."""

from __future__ import annotations

from farrier.model.maas.reading import StatusNumber as Status

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
        Status.RELEASING_FAILED,
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
        Status.FAILED_TO_ENTER_RESCUE_MODE,
        Status.FAILED_TESTING,
    }
)
NETWORK_EDITABLE = frozenset({Status.NEW, Status.READY, Status.FAILED_TESTING, Status.ALLOCATED, Status.BROKEN})
TESTABLE = frozenset(  # maasserver/node_action.py:387
    {
        Status.FAILED_COMMISSIONING,
        Status.NEW,
        Status.READY,
        Status.RESERVED,
        Status.ALLOCATED,
        Status.FAILED_DEPLOYMENT,
        Status.DEPLOYED,
        Status.MISSING,
        Status.RETIRED,
        Status.BROKEN,
        Status.RESCUE_MODE,
        Status.RELEASING_FAILED,
        Status.FAILED_DISK_ERASING,
        Status.FAILED_TO_ENTER_RESCUE_MODE,
        Status.FAILED_TO_EXIT_RESCUE_MODE,
        Status.FAILED_TESTING,
    }
)
READY_AFTER_TESTING = frozenset(  # maasserver/node_status.py:23
    {
        Status.NEW,
        Status.COMMISSIONING,
        Status.FAILED_DEPLOYMENT,
        Status.MISSING,
        Status.RETIRED,
        Status.BROKEN,
        Status.RELEASING_FAILED,
        Status.FAILED_DISK_ERASING,
        Status.FAILED_TO_ENTER_RESCUE_MODE,
        Status.FAILED_TO_EXIT_RESCUE_MODE,
        Status.FAILED_TESTING,
    }
)
FAILS_AS = {
    Status.COMMISSIONING: Status.FAILED_COMMISSIONING,
    Status.DEPLOYING: Status.FAILED_DEPLOYMENT,
    Status.RELEASING: Status.RELEASING_FAILED,
    Status.DISK_ERASING: Status.FAILED_DISK_ERASING,
    Status.ENTERING_RESCUE_MODE: Status.FAILED_TO_ENTER_RESCUE_MODE,
    Status.EXITING_RESCUE_MODE: Status.FAILED_TO_EXIT_RESCUE_MODE,
    Status.TESTING: Status.FAILED_TESTING,
}
