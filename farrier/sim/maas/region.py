"""A simulated MAAS region, with its machines, clock, events, users, networks and other objects, and injected faults.

Every change of a machine's status goes through `move`, which writes the event that clients read. Time passes only by
`advance`.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from farrier.model.maas.reading import RESCUE
from farrier.model.maas.reading import StatusNumber as Status
from farrier.sim.faults import Faults
from farrier.sim.maas import site as surroundings
from farrier.sim.maas.events import Event, EventLog, Level
from farrier.sim.maas.hardware import Durations, Nature
from farrier.sim.maas.http.auth import Keys
from farrier.sim.maas.http.call import Exchange, Refused, User
from farrier.sim.maas.records import Interface, Machine, Script, ScriptSet, ScriptStatus, SetType, Subnet

ADMIN = User(username="admin", key="adminconsumerkey01:admintokenkey00001:adminsecretadminsecretadminsecre")
OPERATOR = User(
    username="op", key="opconsumerkey00001:optokenkey00000001:opsecretopsecretopsecretopsecret", is_superuser=False
)
# The letters and digits of a system ID. MAAS omits characters that look alike.
_ALPHABET = "346789abcdefghkmnpqrstwxy"


class Region:
    """A region. `nature_of` returns the hardware of a machine and the results of the work on this machine; a test may
    change both at any time."""

    def __init__(
        self,
        *,
        durations: Durations | None = None,
        nature: Nature | None = None,
        users: Sequence[User] = (ADMIN, OPERATOR),
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.now = datetime.fromtimestamp(wall(), UTC)
        self.durations = durations or Durations()
        self.default_nature = nature or Nature()
        self.natures: dict[str, Nature] = {}
        self.keys = Keys(users, wall=wall)
        self.site = surroundings.Site()
        self.faults = Faults()
        self.events = EventLog()
        self.machines: dict[str, Machine] = {}
        self.scripts: dict[str, Script] = {}
        self.macs: dict[str, str] = {}
        self.hostnames: dict[str, str] = {}
        self.claimed: set[str] = set()
        self.on_move: list[Callable[[Machine, Status], None]] = []
        """Functions that are called whenever the status of a machine changes, with the machine and its former status.
        Other simulations add these functions."""
        self.on_answer: list[Callable[[Exchange], None]] = []
        """Functions that are called with each request and its response, right before the response is sent. Counters and
        measurements use them."""
        self._ids: dict[str, itertools.count[int]] = {}
        self._order = itertools.count()
        self._due: list[tuple[datetime, int, Callable[[], None]]] = []

    def advance(self, by: timedelta) -> None:
        """Advance the clock, and do all work that becomes due, in the order of its times and then of its planning."""
        until = self.now + by
        while self._due and self._due[0][0] <= until:
            moment, _, step = heapq.heappop(self._due)
            self.now = max(self.now, moment)
            step()
        self.now = max(self.now, until)

    def next_id(self, kind: str) -> int:
        return next(self._ids.setdefault(kind, itertools.count(1)))

    def next_system_id(self) -> str:
        """Return the next machine's ID, which has six characters and does not look like a number. Each region creates
        the same IDs in the same order."""
        number = self.next_id("machine")
        text = ""
        for _ in range(5):
            number, rest = divmod(number, len(_ALPHABET))
            text = _ALPHABET[rest] + text
        return "x" + text

    def open_scripts(self, machine: Machine, type_: SetType, name: str) -> None:
        """Add a set of scripts that are about to run on the machine."""
        machine.script_sets.append(
            ScriptSet(
                id=self.next_id("script set"),
                result_id=self.next_id("script result"),
                type=type_,
                name=name,
                status=ScriptStatus.PENDING,
                created=self.now,
            )
        )

    def keep(self, machine: Machine) -> None:
        """Add `machine` to the region."""
        self.machines[machine.system_id] = machine
        self.hostnames[machine.hostname] = machine.system_id
        for interface in machine.interfaces:
            self.macs[interface.mac_address] = machine.system_id

    def forget(self, machine: Machine) -> None:
        """Remove the machine and its addresses. The events of the machine remain."""
        self.release_addresses(machine)
        machine.epoch += 1
        del self.machines[machine.system_id]
        self.hostnames.pop(machine.hostname, None)
        for interface in machine.interfaces:
            self.macs.pop(interface.mac_address, None)

    def nature_of(self, machine: Machine) -> Nature:
        """Return the nature of a machine by its system ID, its host name or a MAC address, or otherwise the default."""
        names = (machine.system_id, machine.hostname, *(each.mac_address for each in machine.interfaces))
        return next((self.natures[name] for name in names if name in self.natures), self.default_nature)

    def note(
        self, machine: Machine, kind: str, description: str = "", *, level: Level = Level.INFO, action: str = ""
    ) -> None:
        """Write an event that no user caused."""
        self._write(machine, kind, description, level=level, username="unknown", action=action)

    def requested(self, machine: Machine, kind: str, user: User, comment: str | None) -> None:
        """Write the event of a user's request. The event contains the client's comment, so that the client can find the
        event."""
        text = f"({user.username})" + (f" - {comment}" if comment else "")
        self._write(machine, kind, text, level=Level.DEBUG, username=user.username, action="")

    def _write(
        self, machine: Machine, kind: str, description: str, *, level: Level, username: str, action: str
    ) -> None:
        self.events.add(
            Event(
                id=0,
                node=machine.system_id,
                hostname=machine.hostname,
                level=level,
                type=kind,
                description=description,
                username=username,
                created=self.now,
                action=action,
            )
        )

    def move(self, machine: Machine, to: Status) -> None:
        """Change the status, and cancel the work that was planned for the old status."""
        before = machine.status
        if before is to:
            return
        if before not in RESCUE:
            machine.previous_status = before
        machine.status = to
        machine.epoch += 1
        # maasserver/models/signals/events.py:55
        receiver = f" (to {machine.owner})" if to is Status.ALLOCATED else ""
        text = f"From '{before.label}' to '{to.label}'{receiver}"
        self.note(machine, "Node changed status", text, level=Level.DEBUG)
        for listener in self.on_move:
            listener(machine, before)

    def plan(self, machine: Machine, delay: timedelta, step: Callable[[], None]) -> None:
        """Do `step` later, unless the machine's status has changed in the meantime; without a delay, do it now."""
        epoch = machine.epoch

        def unless_void() -> None:
            if machine.epoch == epoch:
                step()

        if delay > timedelta(0):
            heapq.heappush(self._due, (self.now + delay, next(self._order), unless_void))
        else:
            step()

    def claim_address(self, interface: Interface) -> None:
        """Allocate an address for each AUTO link of the interface. The links keep their addresses until the machine is
        released."""
        for link in interface.links:
            if link.mode == "auto" and link.subnet is not None and link.ip_address is None:
                link.ip_address = self.free_address(link.subnet)

    def free_address(self, subnet: Subnet) -> str:
        """Allocate a free address. Each search begins after the last allocated address, because a search from the first
        address would be slow for thousands of machines."""
        for _ in range(surroundings.addresses_of(subnet)):
            address = surroundings.address_in(subnet, self.next_id(f"address in {subnet.id}"))
            if address not in self.claimed:
                self.claimed.add(address)
                return address
        raise Refused(503, f"No more IPs available in subnet: {subnet.cidr}.")

    def clear_links(self, interface: Interface) -> None:
        """Remove all links of the interface, and release their addresses."""
        for link in interface.links:
            self.claimed.discard(link.ip_address or "")
        interface.links = []

    def release_addresses(self, machine: Machine) -> None:
        """Release the addresses of AUTO links. STATIC links keep their addresses."""
        for interface in machine.interfaces:
            for link in interface.links:
                if link.mode == "auto" and link.ip_address is not None:
                    self.claimed.discard(link.ip_address)
                    link.ip_address = None
