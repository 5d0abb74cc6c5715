"""Makes the changes of a plan in UFM, one after the other, and records what UFM refuses.

The handler's steps use this module. If UFM refuses several ports together, each half is tried separately, so that one
bad port does not block the other ports. A refused change does not block further changes. Any other failure ends the
run. The caller then waits, reads, and plans again, so no change is repeated without a read.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from farrier.model.partition.ufm import Add, Create, PartitionChange, RemovePorts, SetPorts, UfmError
from farrier.protocols import UfmClient

# A run must end within a minute; if more changes are left, the next run makes them.
MOST_REQUESTS = 40


class RefusedPorts(msgspec.Struct):
    """The ports that UFM refused, by GUID, its refusals of the partition itself, and the requests that were sent."""

    ports: dict[str, str] = msgspec.field(default_factory=dict)
    partition: list[str] = msgspec.field(default_factory=list)
    requests: int = 0

    @property
    def text(self) -> str:
        """One of the refusals, which changes only if UFM's refusals change; empty if UFM refused nothing."""
        if self.partition:
            return self.partition[0]
        if not self.ports:
            return ""
        guid = min(self.ports)
        others = len(self.ports) - 1
        return f"port {guid}: {self.ports[guid]}" + (f" (and {others} more)" if others else "")


async def make(client: UfmClient, changes: Sequence[PartitionChange]) -> RefusedPorts:
    """Make these changes and return UFM's refusals. Raises `UfmError` for other failures, maybe after some changes."""
    refused = RefusedPorts()
    put: SetPorts | None = None
    for change in changes:
        if refused.requests >= MOST_REQUESTS:
            break
        if isinstance(change, Add):
            await _add(client, change, refused)
            continue
        if isinstance(change, RemovePorts) and put is not None and put.ports.keys().isdisjoint(change.guids):
            continue  # the list of ports that was set before has already removed these
        refused.requests += 1
        try:
            await client.do(change)
        except UfmError as error:
            if not error.is_refusal:
                raise
            refused.partition.append(f"{error.operation}: {error.detail}")
            if isinstance(change, Create):
                break
            if isinstance(change, SetPorts):
                refused.ports |= dict.fromkeys(change.off, error.detail)
        else:
            put = change if isinstance(change, SetPorts) else put
    return refused


async def _add(client: UfmClient, change: Add, refused: RefusedPorts) -> None:
    if refused.requests >= MOST_REQUESTS:
        return
    refused.requests += 1
    try:
        await client.do(change)
    except UfmError as error:
        if not error.is_refusal:
            raise
        if len(change.guids) == 1:
            refused.ports[change.guids[0]] = error.detail
            return
        middle = len(change.guids) // 2
        for half in (change.guids[:middle], change.guids[middle:]):
            await _add(client, msgspec.structs.replace(change, guids=half), refused)
