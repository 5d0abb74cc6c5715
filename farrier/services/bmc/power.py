"""Switches the power of one system: chooses the action, sends it, and reads the system until the action takes effect.

An action whose result is unknown is never sent again. Some BMCs refuse `on` for up to a minute after a power-off. A
refused `on` has no effect, so the client sends it again during this minute.

Each read and the action wait for the BMC separately, so other calls to the BMC can run during a power change, which
takes minutes. The client converts each error except `LeaseLost` to a `BmcError`, whose `sent` is true if the action may
have reached the BMC.

`off` sends `ForceOff`, which always takes effect; a graceful `off` sends `GracefulShutdown`, which an operating system
may ignore. If the BMC allows only one of them, `off` sends this one. A client waits only a few seconds for the effect:
its caller decides how long to wait for a slow machine, and what happens then.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import assert_never

import anyio

from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import BmcError, BmcFailure, NotYet, PowerState
from farrier.services.bmc import failure as bmc_failure
from farrier.services.bmc import resources
from farrier.services.bmc.answers import ErrorStatus
from farrier.services.bmc.exchange import BmcOperation, Exchange
from farrier.services.bmc.probe import FoundSystem, read_system
from farrier.services.bmc.resources import Resource

# Reset types in the order of preference.
_TYPES: Mapping[PowerRequest, tuple[str, ...]] = {
    PowerRequest.ON: ("On", "ForceOn"),
    PowerRequest.OFF: ("ForceOff", "GracefulShutdown"),
    PowerRequest.RESET: ("ForceRestart", "PowerCycle"),
}
_GRACEFUL = {**_TYPES, PowerRequest.OFF: ("GracefulShutdown", "ForceOff")}
# Only the final state proves a change: PoweringOn and PoweringOff may last long, and may fail.
_AT_LAST = {PowerRequest.ON: "On", PowerRequest.OFF: "Off", PowerRequest.RESET: "On"}

# With these statuses, the machine may already be in the target state, or the BMC may be busy with the previous change.
# A BMC may also refuse the action with 403 because of the machine's state.
_CONFLICTS = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT)
# While a machine is being switched, its BMC may be slow, restart its web server, or send an incomplete response.
_PASSES = (BmcFailure.UNREACHABLE, BmcFailure.TIMEOUT, BmcFailure.PROTOCOL)


class PowerChange:
    """One change of the power of the system at `path`."""

    def __init__(self, exchange: Exchange, path: str, *, graceful: bool = False) -> None:
        self._exchange = exchange
        self._times = exchange.times
        self._path = path
        self._types = _GRACEFUL if graceful else _TYPES
        # A machine that shuts down needs no second request to do so; a forced `off` ends a shutdown that hangs.
        self._off = ("Off", "PoweringOff") if graceful else ("Off",)

    async def run(self, wanted: PowerRequest, *, send: bool) -> FoundSystem:
        """Change the power. If `send` is false, only verify the power."""
        system = await self._read()
        if send:
            system = await self._clear(system, wanted)
        end = anyio.current_time() + self._times.power_deadline.total_seconds()
        if send and not self._is_or_becomes(system, wanted):
            system = await self._act(system, wanted)
        return FoundSystem(system_path=self._path, system=await self._proven(system, wanted, end))

    def _is_or_becomes(self, system: Resource, wanted: PowerRequest) -> bool:
        """Return whether no action is needed. For a forced `off`, a shutdown does not count as off: it may hang."""
        match wanted:
            case PowerRequest.ON:
                return resources.power(system) is PowerState.ON
            case PowerRequest.OFF:
                return resources.power_text(system) in self._off
            case PowerRequest.RESET:
                return False
            case _ as never:
                assert_never(never)

    async def _read(self, within: timedelta | None = None) -> Resource:
        async with self._exchange.slot(within):
            return (await read_system(self._exchange, self._path)).system

    async def _clear(self, system: Resource, wanted: PowerRequest) -> Resource:
        """Return `system` if an action may be sent in its power state. If not, read the system again several times,
        until it is in such a state. Raises `BmcError` if the state does not change."""
        for _ in range(self._times.power_rereads):
            if not _unclear(system, wanted):
                break
            await anyio.sleep(self._times.power_reread_pause.total_seconds())
            system = await self._read()
        if _unclear(system, wanted):
            state = resources.power_text(system)
            raise BmcError(BmcFailure.PROTOCOL, f"PowerState of {self._path} stays {state}; {wanted} was not sent")
        return system

    async def _act(self, system: Resource, wanted: PowerRequest) -> Resource:
        """Send the action. Returns the system as it was read before the action."""
        target = resources.reset_target(system)
        if target is None:
            raise BmcError(BmcFailure.UNSUPPORTED, f"{self._path} has no action that switches its power")
        # A machine that is off cannot be reset: the BMC would return an error. So it is switched on.
        off = resources.power_text(system) == "Off"
        kind = PowerRequest.ON if wanted is PowerRequest.RESET and off else wanted
        last = anyio.current_time() + self._times.power_settling.total_seconds()
        while (refusal := await self._send(system, target, kind)) is not None:
            system = await self._read()
            if wanted is not PowerRequest.RESET and resources.power(system) is PowerState(wanted):
                break
            pause = (refusal.retry_after or self._times.power_settling_pause).total_seconds()
            settles = kind is PowerRequest.ON and refusal.failure is BmcFailure.UNREACHABLE
            if not settles or anyio.current_time() + pause > last:
                raise refusal
            await anyio.sleep(pause)
        return system

    async def _send(self, system: Resource, target: str, kind: PowerRequest) -> ErrorStatus | None:
        """Send the action once. Returns the refusal of a BMC that may be busy or already in the target state; raises
        other errors, unless the action may have reached the BMC."""
        async with self._exchange.slot():
            await self._exchange.log_in()
            reset = _choose(self._types[kind], kind, await self._allowed(system))
            try:
                await self._exchange.reset(target, reset)
            except bmc_failure.FORESEEN as error:
                if isinstance(error, ErrorStatus) and error.status in _CONFLICTS:
                    return error
                if not self._exchange.sent:  # otherwise the result is unknown, and only a read shows it
                    raise
        return None

    async def _allowed(self, system: Resource) -> frozenset[str] | None:
        """Return the reset types that the BMC allows, or None if it does not list them."""
        allowed = resources.reset_types(system)
        info = resources.reset_info(system)
        if allowed is not None or info is None:
            return allowed
        try:
            return resources.reset_types_of(await self._exchange.get(BmcOperation.ACTION_INFO, info))
        except ErrorStatus as error:
            if error.failure not in (BmcFailure.UNSUPPORTED, BmcFailure.REFUSED):
                raise
            return None

    async def _proven(self, system: Resource, wanted: PowerRequest, end: float) -> Resource:
        """Return the system once its power is as requested; until `end`, repeat reads that fail."""
        pause = self._times.power_reread_pause
        changes, failed = self._exchange.sent, ""
        while changes or resources.power_text(system) != _AT_LAST[wanted]:
            left = timedelta(seconds=end - anyio.current_time()) - pause
            if left <= timedelta(0):
                state = resources.power_text(system)
                why = f" after {wanted} was sent" if self._exchange.sent else f"; expected {_AT_LAST[wanted]}"
                raise NotYet(BmcFailure.TIMEOUT, f"{self._path} stays {state}{why}{failed}")
            await anyio.sleep(pause.total_seconds())
            try:
                system = await self._read(min(left, self._times.deadline))
                changes, failed = False, ""
            except bmc_failure.FORESEEN as error:
                failure, text = bmc_failure.of_exception(error)
                if failure not in _PASSES:
                    raise
                if left >= self._times.deadline or failure is not BmcFailure.TIMEOUT:  # else `left` is the cause
                    failed = f"; the last read failed: {text}"
        return system


def _unclear(system: Resource, wanted: PowerRequest) -> bool:
    """Return whether an action must wait, because the power state is unknown, or because the machine is powering off
    and should be switched on. BMCs refuse to switch on a machine that is powering off."""
    if resources.power(system) is PowerState.UNKNOWN:
        return True
    return wanted is PowerRequest.ON and resources.power_text(system) == "PoweringOff"


def _choose(types: tuple[str, ...], kind: PowerRequest, allowed: frozenset[str] | None) -> str:
    """Return the most preferred reset type that the BMC allows, or the first preference if the BMC lists no types."""
    if allowed is None:
        return types[0]
    for reset in types:
        if reset in allowed:
            return reset
    listed = ", ".join(sorted(filter(None, map(resources.text, allowed)))) or "none"
    raise BmcError(BmcFailure.UNSUPPORTED, f"{kind} requires {' or '.join(types)}; the BMC allows {listed}")
