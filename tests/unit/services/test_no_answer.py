"""Every reason for there being no answer is a failure that each client knows."""

from __future__ import annotations

import pytest

from farrier.model.maas import MaasFailure
from farrier.model.ufm import UfmFailure
from farrier.services.no_answer import Reason


@pytest.mark.parametrize("reason", Reason)
def test_each_client_has_a_failure_of_that_name(reason: Reason) -> None:
    assert (MaasFailure(reason.value).value, UfmFailure(reason.value).value) == (reason.value, reason.value)
