"""Layer `management`: may we talk to the node's BMC? (`nodes.management`).

Written by the node handler only. Only `manageable` lets anyone use power or provisioning; the layer says
nothing about whether the node is schedulable.
"""

from __future__ import annotations

from enum import StrEnum


class Management(StrEnum):
    """In the order a node goes through them."""

    UNMANAGED = "unmanaged"  # no BMC detail was ever given; a resting state, not an error
    ENROLL = "enroll"  # some detail is given, nothing is proven
    VERIFYING = "verifying"  # a probe is under way
    MANAGEABLE = "manageable"  # proven: power and management interface valid, a real power state read
    ADOPTING = "adopting"  # a running machine is being taken over, reading only
    ADOPT_FAILED = "adopt_failed"  # the take-over failed; the node's last error says why
    ERROR = "error"  # all BMC details were removed after there had been some


TRANSIENT = frozenset({Management.VERIFYING, Management.ADOPTING})
"""States that end by themselves: by an outcome, a deadline, a cancel or a takeover. An intent that only these states do
not accept waits."""
