"""The table of the expected states in MAAS, for every status of a node."""

from __future__ import annotations

from farrier.model.maas.reading import MaasStatus as S
from farrier.model.machine.expected import EXPECTED, REPORTED
from farrier.model.node.layers import NodeStatus as N


def test_the_expected_states_are_those_of_the_model() -> None:
    found = {status: (row.states, row.or_off) for status, row in EXPECTED.items()}
    assert found == {
        N.BOOTSTRAP_ISSUED: (None, False),
        N.ENROLLING: ({S.NEW, S.COMMISSIONING, S.READY, S.ALLOCATED, S.DEPLOYING, S.DEPLOYED}, False),
        N.ACTIVE: ({S.DEPLOYED}, False),
        N.OFFLINE: ({S.DEPLOYED}, False),
        N.QUARANTINED: ({S.READY, S.FAILED, S.BROKEN, S.DEPLOYED, S.ABSENT}, False),
        N.DRAINING: ({S.DEPLOYED, S.READY}, False),
        N.RETIRED: ({S.DEPLOYED, S.READY}, True),
        N.REMOVING: ({S.READY, S.ABSENT}, True),
        N.DELETED: (None, False),
    }


def test_active_and_offline_are_not_among_the_reported_statuses() -> None:
    assert REPORTED.isdisjoint({N.ACTIVE, N.OFFLINE})
