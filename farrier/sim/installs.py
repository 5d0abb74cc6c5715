"""Agents on the machines of a simulated region. A deployment starts the agent that the user data defines, and a release
of the machine ends the agent.

As on a real machine, the agent has only the token in the user data.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from datetime import timedelta

import anyio

from farrier.sim.agents import SimulatedAgents
from farrier.sim.maas import Region, Status
from farrier.sim.maas.records import Machine

TEMPLATE = """\
#cloud-config
hostname: {{ node.name }}
write_files:
  - path: /etc/agent/token
    permissions: "0600"
    content: "{{ bootstrap_token }}"
"""
"""User data as `Installations` reads it."""

_TOKEN = re.compile(r'content: "(fbt_[0-9a-f]+)"')
_BOOTS_AT_ONCE = 8


class Installations:
    """The operating systems of a region's machines. `boot` is the time from the end of a deployment to the start of the
    agent."""

    def __init__(self, region: Region, agents: SimulatedAgents, *, boot: timedelta = timedelta(0)) -> None:
        self._region = region
        self._agents = agents
        self._boot = boot
        self._nodes: dict[str, str] = {}
        self._send, self._receive = anyio.create_memory_object_stream[tuple[str, str]](float("inf"))
        region.on_move.append(self._moved)

    async def run(self) -> None:
        """Boot deployed machines until cancelled. Call this once."""
        slots = anyio.CapacityLimiter(_BOOTS_AT_ONCE)
        async with self._send, self._receive, anyio.create_task_group() as tasks:
            try:
                while True:
                    system_id, token = await self._receive.receive()
                    tasks.start_soon(self._start, system_id, token, slots)
            finally:
                self._region.on_move.remove(self._moved)

    def _moved(self, machine: Machine, before: Status) -> None:
        if machine.status is Status.DEPLOYED and before is Status.DEPLOYING:
            for token in _tokens(machine.user_data):
                self._send.send_nowait((machine.system_id, token))
        elif before in (Status.DEPLOYED, Status.DEPLOYING) and machine.status in _ERASED:
            node = self._nodes.pop(machine.system_id, None)
            if node is not None:
                self._agents.end(node)

    async def _start(self, system_id: str, token: str, slots: anyio.CapacityLimiter) -> None:
        await anyio.sleep(self._boot.total_seconds())
        machine = self._region.machines.get(system_id)
        if machine is None:
            return
        async with slots:
            hardware = self._region.nature_of(machine).hardware
            node = await self._agents.enroll_at_last(token, hardware.serial or machine.hostname, hardware.disks)
        if node is not None:
            self._nodes[system_id] = node


_ERASED = (Status.RELEASING, Status.DISK_ERASING, Status.READY, Status.NEW)


def _tokens(user_data: str | None) -> Sequence[str]:
    """Return the tokens in the user data, which may be encoded."""
    text = user_data or ""
    if not text.startswith("#"):
        text = base64.b64decode(text, validate=False).decode(errors="replace")
    return _TOKEN.findall(text)
