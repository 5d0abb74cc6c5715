"""The outside systems that steps use (BMCs, MAAS regions, UFM, secrets), and the observer of all requests."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from farrier.model.credential import Credential
from farrier.model.intents.params import PowerRequest
from farrier.model.maas.changes import Change, LookUp, NewMachine
from farrier.model.maas.reading import Event, MaasUser, Machine, PowerAddress, Subnet, Vlan
from farrier.model.maas.scripts import Script, ScriptSet, Text
from farrier.model.machine.bmc import BmcReading, BmcTarget
from farrier.model.partition.ufm import PartitionChange, Pkey


class BmcClient(Protocol):
    """Client of BMCs. Every failure is a `BmcError` with its class. `sent` is set if an action may have reached the
    BMC. `dialled` is set if the client sent anything to the BMC. `retry_after` is the time that every caller should
    wait before a retry. Calls to one BMC run one after the other. After a refused login, a call sends no more requests.
    If a BMC refused three logins within five minutes, it gets no requests until the first refusal is five minutes
    old."""

    async def verify(self, target: BmcTarget, *, macs: bool = False) -> BmcReading:
        """Read the power interface, the management interface and the actual power state.

        Without a `system_path`, the system is discovered. With `macs`, also read the addresses of the system's
        interfaces, for a check of the system's identity. Sends only GETs, within one overall deadline, so a call may be
        repeated, cancelled or abandoned.
        """

    async def read(self, target: BmcTarget) -> BmcReading:
        """Read power, health and identity with one GET of the system; `power` may be `unknown`. May be called any
        number of times. Raises `ValueError` without a `system_path`."""

    async def set_power(
        self, target: BmcTarget, wanted: PowerRequest, *, graceful: bool = False, send: bool = True
    ) -> BmcReading:
        """Set the power to `wanted` and confirm the result by reading; after a reset, `on` is expected. Needs a
        `system_path`.

        The method first reads the system, and sends no action if the power is already as wanted. Otherwise, it sends
        the action one time, with a type that the BMC allows, and never repeats the action, even after an error. Then it
        reads for a few seconds until the power is as wanted. If it is not yet, the method raises `NotYet`, and the
        caller may wait longer. A caller must not repeat the call without a check. After an
        error whose `sent` is set, or if it is unknown whether the action was sent, the caller passes `send=False`; the
        method then only reads. A reset of a system that is off switches it on. With `graceful`, `off` asks the
        operating system to shut down, if the BMC offers this; otherwise `off` does not wait for the operating system.
        """


class CredentialStore(Protocol):
    """Resolves references (`file:/run/creds/bmc-1`) to secrets. A secret in a file or a variable of this machine is
    read at each call. A secret from a server is cached for some seconds, so that frequent calls are cheap."""

    async def resolve(self, reference: str) -> Credential:
        """Return the secret of `reference`; neither its user name nor its password is empty. Raises `CredentialError`,
        whose text contains no secret. The error has `temporary` set if the same reference may resolve later."""

    async def version(self, reference: str) -> str:
        """Return the version of the secret that `resolve` would return, to detect a rotation. The call is cheap enough
        for each power sync. Raises the same errors as `resolve`."""

    async def token(self, reference: str) -> str:
        """Return a secret that is one text, such as an API key. Raises the same errors as `resolve`."""


class NodeCredentials(Protocol):
    """Secrets for the steps of a node. If no binding of an operator allows the use of a reference for an address, the
    reference is refused before its secret is read. All methods raise `CredentialError`, like a `CredentialStore`."""

    async def version(self, target: BmcTarget) -> str:
        """Return the version of the secret for the target's BMC. Sends nothing to the BMC."""

    async def for_region(self, target: BmcTarget) -> Credential:
        """Return the credential with which the MAAS region of the node's site logs in to the target's BMC."""

    async def token(self, reference: str) -> str:
        """Return a secret that an operator configured. The reference does not come from a node."""


class ServiceObserver(Protocol):
    """The observer of every request that a service client sends. Must not block or raise."""

    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        """Record that a request ended. The labels come from finite sets. `result` is `ok`, `cancelled` or a failure
        class."""


class MaasClient(Protocol):
    """Client of one MAAS region. Every failure is a `MaasError`; its `ambiguous` is set if the change may have been
    made. Reads may be repeated, cancelled or abandoned. The client sends a change only one time. After an error, and
    before each repetition, the caller reads and decides again; it recognises its earlier call by the comment."""

    async def version(self) -> str:
        """Return the version of the region. Success does not prove that the key is valid."""

    async def whoami(self) -> MaasUser:
        """Return the user to whom the API key belongs. Callers use it to check the key."""

    async def machines(self, by: LookUp, values: Sequence[str]) -> tuple[Machine, ...]:
        """Return the machines with one of `values`, without duplicates, read in chunks. A missing machine may be
        hidden: only `machine` proves that a machine is absent."""

    async def machine(self, system_id: str) -> Machine:
        """Read one machine. The error `absent` means that the region has no machine with this ID."""

    async def power_addresses(self, ids: Sequence[str] = ()) -> Mapping[str, PowerAddress]:
        """Return the addresses of the BMCs of these machines, or of all machines, by system ID."""

    async def subnets(self) -> tuple[Subnet, ...]:
        """Return every subnet of the region, with the subnet's VLAN."""

    async def vlans(self) -> tuple[Vlan, ...]:
        """Return every VLAN of every fabric of the region."""

    async def events(
        self, *, after: int | None = None, before: int | None = None, system_id: str | None = None, limit: int = 1000
    ) -> tuple[Event, ...]:
        """Return events of one machine or of all machines, oldest first, without duplicates. With `after`, return the
        first events after this ID; with `before`, the last events before this ID; with neither, the last of all events.
        Events may become visible in another order than their IDs, so callers read some events again."""

    async def results(self, system_id: str, kind: str) -> tuple[ScriptSet, ...]:
        """Return the script sets of one kind: `commissioning`, `testing` or `installation`."""

    async def result(self, system_id: str, number: int) -> ScriptSet:
        """Return one script set, with the output of its scripts."""

    async def scripts(self, name: str) -> tuple[Script, ...]:
        """Return the testing scripts that MAAS runs for this name, which may also be a tag, with their texts."""

    async def save_script(self, script: Text, *, is_new: bool) -> None:
        """Store a testing script, or a new text of a script that exists. Needs an administrator's key."""

    async def setting(self, name: str) -> object:
        """Return a setting of the region. Needs an administrator's key."""

    async def create(self, new: NewMachine) -> Machine:
        """Create a machine. After the error `invalid` with `hostname` or `mac_addresses` in `fields`, the caller looks
        for the machine, because it may already exist."""

    async def do(self, machine: Machine, change: Change) -> None:
        """Request a change of a machine that was just read. Raises `foreign_owner`, and sends nothing, if another user
        owns the machine. Success means that the region accepted the change; a later read shows the effect."""

    async def holds(self, machine: Machine) -> bool:
        """Return whether farrier's user owns the machine. The first call reads the user of the key from the region."""


class Regions(Protocol):
    """The MAAS regions of the configured sites."""

    def client(self, site: str) -> MaasClient | None:
        """Return the client with which the observer reads the site's region. Slots do not limit this client. The result
        is None if the site has no region."""

    def slot(self, site: str, caller: Hashable) -> AbstractAsyncContextManager[MaasClient]:
        """Wait for a slot of the site's region, and return the region's client for a few successive calls. The number
        of slots is limited, so that no call waits in the client's own queue. Callers, such as nodes, are served in the
        order in which they first came; a refused caller keeps its place.

        Raises `MaasError` before anything is sent: `busy` if the queue is too long; `unreachable` for a site without a
        region; or the error of an earlier slot if this error affects every node.
        """


class UfmClient(Protocol):
    """Client of the partitions of one UFM. Every failure is a `UfmError`; its `ambiguous` is set if the change may have
    been made. Reads may be repeated, cancelled or abandoned. The client sends each change only one time; the caller may
    repeat the change after a read of its result."""

    @property
    def url(self) -> str:
        """The URL of this UFM."""

    @property
    def named(self) -> bool:
        """Whether farrier sets the names of the partitions in this UFM."""

    async def read(self, number: int, *, fresh: bool = False) -> Pkey | None:
        """Return the partition; None if UFM has no such partition. The reading is at most some seconds old, and newer
        than farrier's last change of the partition. All callers share one reading, so calls are cheap. With `fresh`,
        the reading begins after this call; concurrent callers share this reading."""

    async def read_anew(self, number: int) -> Pkey | None:
        """Return the current partition, perhaps without `qos`. The result is None only if the partition is missing both
        in the response for its key and in the list of all keys. This proves that the number is free."""

    async def do(self, change: PartitionChange) -> None:
        """Request a change of a partition. Success means that UFM accepted the change; a later read shows the
        effect."""


class Fabrics(Protocol):
    """The UFM clients of the configured sites."""

    def client(self, site: str) -> UfmClient | None:
        """Return the client of the site's UFM; None for a site without a UFM."""
