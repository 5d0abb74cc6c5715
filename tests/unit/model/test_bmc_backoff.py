"""The backoff between attempts at a BMC, by failure class."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farrier.model.machine import bmc

SECONDS_OF_FIRST_AND_LONGEST = {
    bmc.BmcFailure.UNREACHABLE: (30, 300),
    bmc.BmcFailure.TIMEOUT: (30, 300),
    bmc.BmcFailure.INTERNAL: (30, 300),
    bmc.BmcFailure.AUTH: (300, 1800),
    bmc.BmcFailure.AUTH_SCHEME: (300, 1800),
    bmc.BmcFailure.REFUSED: (300, 1800),
    bmc.BmcFailure.TLS: (300, 1800),
    bmc.BmcFailure.PROTOCOL: (300, 1800),
    bmc.BmcFailure.UNSUPPORTED: (300, 1800),
}
WAITS_FOR_AN_EDIT = {
    bmc.BmcFailure.INCOMPLETE,
    bmc.BmcFailure.IDENTITY_MISMATCH,
    bmc.BmcFailure.IDENTITY_TAKEN,
}


@pytest.mark.parametrize("failure", bmc.BmcFailure)
def test_each_failure_class_has_its_first_and_its_longest_backoff(failure: bmc.BmcFailure) -> None:
    pauses = [bmc.backoff(failure, consecutive) for consecutive in (1, 10_000)]
    if failure in WAITS_FOR_AN_EDIT:
        assert pauses == [None, None]
    else:
        assert pauses == [timedelta(seconds=value) for value in SECONDS_OF_FIRST_AND_LONGEST[failure]]


@settings(deadline=None)
@given(st.sampled_from(sorted(SECONDS_OF_FIRST_AND_LONGEST)), st.integers(1, 40))
def test_the_backoff_doubles_up_to_its_limit(failure: bmc.BmcFailure, consecutive: int) -> None:
    pause, following = bmc.backoff(failure, consecutive), bmc.backoff(failure, consecutive + 1)
    assert pause is not None
    longest = timedelta(seconds=SECONDS_OF_FIRST_AND_LONGEST[failure][1])
    assert following == min(pause * 2, longest)
