"""A fake client of a site's BMCs: tests set its results and delays, and read which calls it received.

Contract suites hold the real client to `protocols.BmcClient`; this one returns what a test scripts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import anyio
from msgspec.structs import replace
from typing_extensions import override

from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import BmcReading, BmcTarget, PowerState
from farrier.protocols import BmcClient
from tests.support.loop import PATIENCE

READING = BmcReading(
    power=PowerState.ON,
    system_path="/redfish/v1/Systems/1",
    serial="SN-1",
    uuid="38b7a8c4-0001-11ec-9621-0242ac130002",
    credential_version="v1",
)


def reading(target: BmcTarget) -> BmcReading:
    """The reading of the machine behind a BMC. The last number of the address, in any network, and the number of the
    system identify the machine. Machine 1 of address 1 has the reading `READING`."""
    host, system = _number(target.address), _number(target.system_path or "")
    if (host, system) == (1, 1):
        return READING
    serial = f"SN-{host}" if system == 1 else f"SN-{host}-{system}"
    return replace(READING, serial=serial, uuid=f"38b7a8c4-{system:04}-11ec-9621-{host:012}")


def _number(text: str) -> int:
    numbers = re.findall(r"[0-9]+", text)
    return int(numbers[-1]) if numbers else 1


class FakeBmc(BmcClient):
    """Every BMC of the site. `power` is the power state of all machines. `script`, `read_script` and `power_script`
    return the results of verifications, reads and changes of power, or raise errors. `powers` lists the changes of
    power, each with whether the client was allowed to send it; `graceful` lists for each sent change whether it was
    graceful. After `hold`, calls wait until `let_go`; `cut` is set
    when a waiting call was cancelled."""

    def __init__(self) -> None:
        self.calls: list[BmcTarget] = []
        self.asked_for_macs: list[bool] = []
        self.reads: list[BmcTarget] = []
        self.powers: list[tuple[BmcTarget, PowerRequest, bool]] = []
        self.graceful: list[bool] = []
        self.power = PowerState.ON
        self.recover()
        self.hold()
        self.let_go()

    @property
    def sent(self) -> list[PowerRequest]:
        """The changes of power that the client was allowed to send."""
        return [wanted for _, wanted, send in self.powers if send]

    @property
    def logins(self) -> int:
        """The number of calls to any BMC."""
        return len(self.calls) + len(self.reads) + len(self.powers)

    def hold(self, *, address: str | None = None, only_power: bool = False) -> None:
        """From now on calls wait: all, or those for one BMC, or those that change power."""
        self.begun, self.cut, self._gate = anyio.Event(), anyio.Event(), anyio.Event()
        self._held, self._only_power = address, only_power

    def let_go(self) -> None:
        self._gate.set()

    async def called(self) -> None:
        """Return once a call is held."""
        with anyio.fail_after(PATIENCE):
            await self.begun.wait()

    def recover(self) -> None:
        self.script: Callable[[BmcTarget], BmcReading] = lambda target: replace(reading(target), power=self.power)
        self.read_script: Callable[[BmcTarget], BmcReading] = lambda target: replace(reading(target), power=self.power)
        self.power_script: Callable[[BmcTarget, PowerRequest], BmcReading] = self._switched

    def fail(self, error: Exception) -> None:
        """From now on every call raises this."""

        def script(_target: BmcTarget, _wanted: PowerRequest | None = None) -> BmcReading:
            raise error

        self.script = self.read_script = self.power_script = script

    @override
    async def verify(self, target: BmcTarget, *, macs: bool = False) -> BmcReading:
        self.calls.append(target)
        self.asked_for_macs.append(macs)
        await self._wait(target)
        return self.script(target)

    @override
    async def read(self, target: BmcTarget) -> BmcReading:
        self.reads.append(target)
        await self._wait(target)
        return self.read_script(target)

    @override
    async def set_power(
        self, target: BmcTarget, wanted: PowerRequest, *, graceful: bool = False, send: bool = True
    ) -> BmcReading:
        self.powers.append((target, wanted, send))
        if send:
            self.graceful.append(graceful)
        await self._wait(target, changes_power=True)
        return self.power_script(target, wanted) if send else self.read_script(target)

    def _switched(self, target: BmcTarget, wanted: PowerRequest) -> BmcReading:
        self.power = PowerState.OFF if wanted is PowerRequest.OFF else PowerState.ON
        return replace(reading(target), power=self.power)

    async def _wait(self, target: BmcTarget, *, changes_power: bool = False) -> None:
        if self._held not in (None, target.address) or (self._only_power and not changes_power):
            return
        self.begun.set()
        try:
            await self._gate.wait()
        except anyio.get_cancelled_exc_class():
            self.cut.set()
            raise
