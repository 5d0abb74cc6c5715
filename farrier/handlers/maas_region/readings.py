"""Converts a region's responses about machines to readings. Pure.

Texts are shortened to a length that operators can read, and characters that the database cannot store are removed. An
invalid text of one machine must not make the readings of all other machines fail.
"""

from __future__ import annotations

from datetime import UTC, datetime

from farrier.model.maas import RESCUE, MaasStatus, Machine
from farrier.model.maas_region import DueMachine, Reading, Seen

# Number of characters. MAAS keeps the whole text.
LONGEST_TEXT = 500


def seen(due: DueMachine, machine: Machine, now: datetime) -> Reading:
    """Return the reading of a requested machine."""
    return Reading(
        node=due.node,
        system_id=due.system_id,
        state=machine.state,
        read_at=now,
        in_rescue=machine.status in RESCUE,
        seen=Seen(
            status=machine.status,
            status_name=_text(machine.status_name),
            hostname=_text(machine.hostname),
            owner=_text(machine.owner),
            locked=machine.locked,
            power_state=_text(machine.power_state),
            netboot=machine.netboot,
            status_message=_text(machine.status_message),
            error_description=_text(machine.error_description),
            osystem=_text(machine.osystem),
            distro_series=_text(machine.distro_series),
            commissioning_status_name=_text(machine.commissioning_status_name),
            testing_status_name=_text(machine.testing_status_name),
            enable_hw_sync=machine.enable_hw_sync,
            sync_interval=machine.sync_interval,
            last_sync=_with_zone(machine.last_sync),
        ),
    )


def absent(due: DueMachine, now: datetime) -> Reading:
    """Return the reading of a machine that the region reports as missing."""
    return Reading(node=due.node, system_id=due.system_id, state=MaasStatus.ABSENT, read_at=now)


def plain(text: str) -> str:
    """Return `text` without the characters that the database cannot store, shortened to the longest allowed length."""
    return text.replace("\0", "\ufffd")[:LONGEST_TEXT]


def _text(text: str | None) -> str | None:
    return None if text is None else plain(text)


def _with_zone(moment: datetime | None) -> datetime | None:
    """Return the time with a zone; times of the region are in UTC, even if they have no zone."""
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
