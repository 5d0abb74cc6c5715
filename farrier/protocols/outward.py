"""The outside systems that steps use: BMCs, MAAS regions, fabrics, secrets; and the observer of every request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from farrier.model.bmc import BmcReading, BmcTarget
from farrier.model.credential import Credential
from farrier.model.maas import (
    Event,
    Identity,
    Machine,
    PowerAddress,
    ScriptSet,
    Subnet,
    Vlan,
)
from farrier.model.maas_changes import Change, LookUp, NewMachine
from farrier.model.params import PowerRequest
from farrier.model.ufm import Membership, Pkey, Port, Qos, Wanted


class BmcClient(Protocol):
    """Speaks to BMCs. Every failure is a `BmcError` with its class; it says with `sent` whether an action may have
    reached the BMC, with `dialled` whether anything was sent at all, and with `retry_after` how long nobody should
    try again. Calls for one BMC run one after the other, each after at most one refused login, and a BMC that
    refused three logins within five minutes is not dialled until the first of them is that old."""

    async def verify(self, target: BmcTarget, *, macs: bool = False) -> BmcReading:
        """One pass over the power interface, the management interface and a real power state.

        Without a `system_path` the system is discovered. `macs`: read the addresses of its interfaces, too, for a check
        of identity.
        Sends GETs only, within one overall deadline, so a call may be repeated, cut short or abandoned.
        """

    async def read(self, target: BmcTarget) -> BmcReading:
        """One GET of the system, for power, health and identity together; `power` may be `unknown`. May be called
        as often as wanted. Raises `ValueError` without a `system_path`."""

    async def set_power(self, target: BmcTarget, wanted: PowerRequest, *, send: bool = True) -> BmcReading:
        """Make power `wanted` and prove it by reading; `on` is what is wanted after a reset. Needs a `system_path`.

        Reads first: a system that already is as wanted gets no action. Else the action is sent once, of a type that
        the BMC allows, and never again, whatever becomes of the answer; then the system is read until it is as
        wanted. `BmcError` `timeout` when it is not in time. Not to be repeated blindly: after an error with `sent`,
        or when nobody knows, the caller passes `send=False`, which only reads. A reset of a system that is off
        switches it on; off is at once, without asking the operating system.
        """


class CredentialStore(Protocol):
    """Turns references (`file:/run/creds/bmc-1`) into secrets. Those of this machine are read anew for each call; those
    of a server may be some seconds old, so that asking often is cheap."""

    async def resolve(self, reference: str) -> Credential:
        """The secret behind `reference`. Raises `CredentialError`, whose text holds no secret; `temporary` when the
        same reference may do later."""

    async def version(self, reference: str) -> str:
        """The version that `resolve` would answer: how a rotation is noticed. May be asked for each power sync.
        Raises as `resolve` does."""

    async def token(self, reference: str) -> str:
        """A secret that is one text, like an API key. Raises as `resolve` does."""


class NodeCredentials(Protocol):
    """Secrets for a node's steps. A reference and an address that no binding of an operator pairs are refused before
    the reference is read. Everything raises `CredentialError` as a `CredentialStore` does."""

    async def version(self, target: BmcTarget) -> str:
        """The version of the secret at the target's BMC. Dials nothing."""

    async def for_region(self, target: BmcTarget) -> Credential:
        """The secret, for the region of the node's site, which logs in at the target's BMC itself."""

    async def token(self, reference: str) -> str:
        """A secret that an operator configured: not one that a node names."""


class ServiceObserver(Protocol):
    """Told of every request that a service client sends. Must not block or raise."""

    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        """Record that a request ended. The labels come from finite sets; `result`: `ok`, `cancelled` or a failure
        class."""


class MaasClient(Protocol):
    """Speaks to one MAAS region. Every failure is a `MaasError`; it says with `ambiguous` whether a change may have
    been made all the same. Reads may be repeated, cut short or abandoned. A change is sent once: after an error, and
    before each repetition, the caller reads and decides anew, and recognises its own earlier call by its comment."""

    async def version(self) -> str:
        """The region's version; proves nothing about the key."""

    async def whoami(self) -> Identity:
        """Whom the key belongs to: the probe of the key."""

    async def machines(self, by: LookUp, values: Sequence[str]) -> tuple[Machine, ...]:
        """Those with one of `values`, each once, in chunks. One that is not listed may be hidden: only `machine` proves
        that it is absent."""

    async def machine(self, system_id: str) -> Machine:
        """Read one machine. `absent` means that the region has no machine with this ID."""

    async def power_addresses(self, ids: Sequence[str] = ()) -> Mapping[str, PowerAddress]:
        """Where the BMCs of these machines, or of all, are, by system id."""

    async def subnets(self) -> tuple[Subnet, ...]:
        """Every subnet of the region, with the VLAN that it is on."""

    async def vlans(self) -> tuple[Vlan, ...]:
        """Every VLAN of every fabric of the region."""

    async def events(
        self, *, after: int | None = None, before: int | None = None, system_id: str | None = None, limit: int = 1000
    ) -> tuple[Event, ...]:
        """Oldest first, each once; of one machine or of all. With `after` the first behind that id, with `before` the
        last ahead of it, else the last that there are. Ids may appear out of order: read a few of them again."""

    async def results(self, system_id: str, kind: str) -> tuple[ScriptSet, ...]:
        """Rounds of scripts of a kind: `commissioning`, `testing` or `installation`."""

    async def create(self, new: NewMachine) -> Machine:
        """Make a machine. `invalid` with `hostname` or `mac_addresses` in `fields`: look for it, it may be there."""

    async def do(self, machine: Machine, change: Change) -> None:
        """Request a change of a machine that was just read. `foreign_owner`, and nothing sent, if another user owns it.
        Success means that the region accepted it; its effect is read later.
        """

    async def holds(self, machine: Machine) -> bool:
        """Whether our own user holds it. Asks the region once for whom the key belongs to."""


class Regions(Protocol):
    """The MAAS regions of the sites that are configured."""

    def client(self, site: str) -> MaasClient | None:
        """The client of the site's region, for its observer, which stands in no line; None without a region."""

    def turn(self, site: str) -> AbstractAsyncContextManager[MaasClient]:
        """Wait for a slot of the site's region, and return its client for a few successive calls. The number of slots
        is limited, so that no call waits inside. Raises `MaasError` before anything is sent: `busy` if the queue is
        too long; the error of another turn that this one would meet, too; `unreachable` for a site without a region."""


class UfmClient(Protocol):
    """Speaks to one UFM about partitions. Every failure is a `UfmError`; it says with `ambiguous` whether a change may
    have been made all the same. Reads may be repeated, cut short or abandoned. A change is sent once; each may be asked
    for again, after reading what became of the last one."""

    @property
    def url(self) -> str:
        """Which UFM this is."""

    @property
    def named(self) -> bool:
        """Whether farrier names the partitions in this UFM."""

    async def read(self, number: int, *, fresh: bool = False) -> Pkey | None:
        """The partition, as some seconds ago, but not before our own last change of it; None if UFM has none. As cheap
        as can be: a reading is shared by all who ask. `fresh`: not before this call; shared by all who ask together."""

    async def read_anew(self, number: int) -> Pkey | None:
        """The partition as it is now, perhaps without its services. None only where neither the key nor the list of all
        has it: proves that a number is free."""

    async def create(self, wanted: Wanted) -> None:
        """Make it, without ports."""

    async def set_qos(self, number: int, qos: Qos) -> None:
        """Change what its services may use."""

    async def add(self, wanted: Wanted, guids: Sequence[str], membership: Membership) -> None:
        """Make these ports members, beside those that are."""

    async def set_ports(self, wanted: Wanted, ports: Mapping[str, Port]) -> None:
        """Make exactly these ports members; put back its name and whether it carries IP."""

    async def remove(self, number: int, guids: Sequence[str]) -> None:
        """Make these ports members no longer. UFM may give up a partition with its last port."""

    async def delete(self, number: int) -> None:
        """Give it up, with all ports in it."""


class Fabrics(Protocol):
    """The fabric managers of the sites that are configured."""

    def client(self, site: str) -> UfmClient | None:
        """The client of the site's UFM; None for a site without one."""
