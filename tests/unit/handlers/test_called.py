"""Exceptions of the BMC client's calls, and the failures that they become."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from farrier.errors import LeaseLost
from farrier.handlers.node.probing import called
from farrier.model.bmc import BmcError, BmcFailure, BmcReading


async def raising(error: Exception) -> BmcReading:
    raise error


@pytest.mark.parametrize("error", [LeaseLost("gpu-1"), BmcError(BmcFailure.AUTH, "401")], ids=["lease", "BMC"])
async def test_a_lost_lease_and_a_failure_of_the_bmc_pass_as_they_are(error: Exception) -> None:
    with capture_logs() as told, pytest.raises(type(error)) as raised:
        await called(raising(error))
    assert raised.value is error and told == []


async def test_any_other_exception_is_an_internal_failure() -> None:
    with capture_logs() as told, pytest.raises(BmcError) as raised:
        await called(raising(KeyError("x")))
    assert raised.value.failure is BmcFailure.INTERNAL and [line["event"] for line in told] == ["bmc.client_bug"]
