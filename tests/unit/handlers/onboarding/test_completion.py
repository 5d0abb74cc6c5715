"""The successful ends of an onboarding."""

from __future__ import annotations

import pytest

from farrier.handlers.node.workflow.stages import onboarded
from farrier.model.machine.bmc import PowerState
from farrier.model.node.layers import Management
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Bmc
from tests.support.nodes import onboarding, with_bmc


@pytest.mark.parametrize(("wanted", "kept"), [(PowerState.OFF, None), (PowerState.ON, PowerState.ON), (None, None)])
def test_an_earlier_request_to_switch_off_ends_when_the_node_enters_service(
    wanted: PowerState | None, kept: PowerState | None
) -> None:
    parked = with_bmc(Management.MANAGEABLE, Bmc(desired_power=wanted, power=PowerState.ON), workflow=onboarding())
    after = onboarded(parked)
    assert after.status is N.ACTIVE
    assert after.bmc.desired_power is kept
