"""Layer `management`: whether farrier may use the node's BMC (`nodes.management`).

Only the node handler writes it. Power and provisioning require `manageable`. The layer does not show whether the node
is schedulable.
"""

from __future__ import annotations

from enum import StrEnum


class Management(StrEnum):
    """The states, in the order in which a node passes through them."""

    UNMANAGED = "unmanaged"  # no BMC detail was set; a valid final state, not an error
    ENROLL = "enroll"  # a BMC detail is set, but nothing is verified
    VERIFYING = "verifying"  # a probe runs
    MANAGEABLE = "manageable"  # verified: power and management interface are valid, and the power state was read
    ADOPTING = "adopting"  # farrier adopts a running machine, with reads only
    ADOPT_FAILED = "adopt_failed"  # the adoption failed; the node's last error has the reason
    ERROR = "error"  # all BMC details were removed


TRANSIENT = frozenset({Management.VERIFYING, Management.ADOPTING})
"""States that end by themselves: by an outcome, a deadline, a cancel or the recovery after a crash. If one of these
states does not accept an intent, the intent waits until the state ends, instead of being rejected."""
