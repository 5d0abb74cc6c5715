"""Response to `set_power`.

It stays pending while the BMC is asked: what came of it is its answer, committed with the result by `switching`.
"""

from __future__ import annotations

from farrier.handlers.node import probing
from farrier.handlers.node.logins import capped, counted, target_of, waits_for_others
from farrier.handlers.node.moves import with_fields
from farrier.handlers.node.reply import Hold, Reject, Reply, Request
from farrier.handlers.node.switching import begin
from farrier.model.bmc import BmcFailure
from farrier.model.node import Switching
from farrier.model.params import PowerRequest, SetPower


def set_power(request: Request) -> Reply:
    """Notes what is to be sent, in a commit of its own. May be asked for again: what is so already is not sent."""
    node, now, params = request.node, request.now, request.params
    assert isinstance(params, SetPower), "the table names the type"
    if node.bmc.switching is not None:
        return Hold(reason="power is being switched")
    if params.enforce and params.power is PowerRequest.RESET:
        return Reject(reason="set_power reset: a reset is done once and cannot be kept; enforce goes with on or off")
    shared = probing.shared(node)
    if shared is not None:
        return Reject(reason=f"set_power {params.power}: {shared}")
    if node.bmc.sync_failure is BmcFailure.IDENTITY_MISMATCH:
        return Reject(reason=f"set_power {params.power}: {node.bmc.sync_error}; correct it with set_bmc, or manage it")
    if target_of(node).system_path is None:
        return Reject(reason=f"set_power {params.power}: which system it is was never read; manage it first")
    wanted = Switching(power=params.power, at=now, intent=request.intent.id, enforce=params.enforce)
    begun = begin(node.bmc, wanted)
    if begun is None:
        may = counted(node.bmc, now)
        reason, _ = capped(may, now)
        if waits_for_others(may, now):
            return Hold(reason=reason)
        return Reject(reason=f"set_power {params.power}: {reason}; ask again in a few minutes")
    if node.bmc.asked_at is not None:
        return Hold(reason="is verified first, as was asked for")
    return Hold(reason=f"power {params.power} is about to be sent", to=with_fields(node, bmc=begun))
