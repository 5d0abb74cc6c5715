"""The BMCs of a site, played: what they answer, how long they take, and what was asked of them.

Contract suites hold the real client to `protocols.BmcClient`; this one says what a test wants to hear.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from msgspec.structs import replace
from typing_extensions import override

from farrier.model.bmc import BmcReading, BmcTarget, PowerState
from farrier.model.params import PowerRequest
from farrier.protocols import BmcClient
from tests.support.loop import PATIENCE

READING = BmcReading(
    power=PowerState.ON,
    system_path="/redfish/v1/Systems/1",
    manager_path="/redfish/v1/Managers/1",
    serial="SN-1",
    uuid="38b7a8c4-0001-11ec-9621-0242ac130002",
    credential_version="v1",
    requests=4,
)


class FakeBmc(BmcClient):
    """Every BMC of the site. `script` answers a verification or raises, `read_script` a read, `power_script` a change
    of power, which `powers` lists with whether it might send; `hold` makes calls wait until `let_go`; `cut` is set when
    one was cut short."""

    def __init__(self) -> None:
        self.calls: list[BmcTarget] = []
        self.asked_for_macs: list[bool] = []
        self.reads: list[BmcTarget] = []
        self.powers: list[tuple[BmcTarget, PowerRequest, bool]] = []
        self.recover()
        self.begun, self.cut, self._gate = anyio.Event(), anyio.Event(), anyio.Event()
        self._gate.set()

    def hold(self) -> None:
        self.begun, self.cut, self._gate = anyio.Event(), anyio.Event(), anyio.Event()

    def let_go(self) -> None:
        self._gate.set()

    async def called(self) -> None:
        """Wait for a read to begin."""
        with anyio.fail_after(PATIENCE):
            await self.begun.wait()

    def recover(self) -> None:
        self.script: Callable[[BmcTarget], BmcReading] = lambda _target: READING
        self.read_script: Callable[[BmcTarget], BmcReading] = lambda _target: READING
        self.power_script: Callable[[BmcTarget, PowerRequest], BmcReading] = lambda _target, wanted: replace(
            READING, power=PowerState.OFF if wanted is PowerRequest.OFF else PowerState.ON
        )

    def fail(self, error: Exception) -> None:
        """From now on every call raises this."""

        def script(_target: BmcTarget, _wanted: PowerRequest | None = None) -> BmcReading:
            raise error

        self.script = self.read_script = self.power_script = script

    @override
    async def verify(self, target: BmcTarget, *, macs: bool = False) -> BmcReading:
        self.calls.append(target)
        self.asked_for_macs.append(macs)
        await self._wait()
        return self.script(target)

    @override
    async def read(self, target: BmcTarget) -> BmcReading:
        self.reads.append(target)
        await self._wait()
        return self.read_script(target)

    @override
    async def set_power(self, target: BmcTarget, wanted: PowerRequest, *, send: bool = True) -> BmcReading:
        self.powers.append((target, wanted, send))
        await self._wait()
        return self.power_script(target, wanted)

    async def _wait(self) -> None:
        self.begun.set()
        try:
            await self._gate.wait()
        except anyio.get_cancelled_exc_class():
            self.cut.set()
            raise
