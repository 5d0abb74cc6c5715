"""The plan of changes in UFM: every difference from the wanted partition has a change, and nothing else has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from farrier.handlers.ib_partition.apply import MOST_REQUESTS, make
from farrier.handlers.ib_partition.plan import MOST_AT_ONCE, SEEN_AGAIN_AFTER, marks, planned
from farrier.model.partition.partition import IbPartition, Left, Marked, Member, MemberState, Stranger
from farrier.model.partition.ufm import (
    Add,
    Create,
    Membership,
    PartitionChange,
    PartitionPort,
    Pkey,
    Qos,
    RateLimit,
    RemovePorts,
    SetPorts,
    SetQos,
    UfmError,
    UfmFailure,
    WantedPartition,
)
from farrier.services.ufm.client import READING_KEPT

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GUIDS = tuple(f"{number:016x}" for number in range(1, 400))
QOS = Qos(mtu_limit=2, rate_limit=2.5, service_level=0)
WANTED = WantedPartition(number=16, qos=QOS, ip_over_ib=True, index0=False)
HAVE = Pkey(number=16, name="api_pkey_0x10", qos=QOS, ports={GUIDS[0]: PartitionPort(), GUIDS[1]: PartitionPort()})


def member(number: int, **changes: Any) -> Member:
    fields: dict[str, Any] = {"guid": GUIDS[number], "owner": "me", "state": MemberState.APPLIED, "seq": 1}
    return Member(**(fields | changes))


def partition(**changes: Any) -> IbPartition:
    fields: dict[str, Any] = {
        "id": 1,
        "version": 1,
        "name": "ib",
        "site": "north",
        "state": "ready",
        "state_entered_at": NOW,
        "created_at": NOW,
        "claimed_at": NOW,
        "pkey": 16,
        "mtu_limit": 2,
        "rate_limit": RateLimit.G2_5,
        "service_level": 0,
        "members": (member(0), member(1)),
    }
    return IbPartition(**(fields | changes))


def test_a_partition_without_a_difference_is_not_changed() -> None:
    plan = planned(partition(), HAVE, NOW, named=False)
    assert (plan.changes, plan.strangers) == ((), ())
    assert not list(marks(partition(), HAVE, {}))


def test_a_partition_that_ufm_does_not_have_is_created_before_its_ports_are_added() -> None:
    changes = planned(partition(members=(member(0), member(1, membership=Membership.LIMITED))), None, NOW, named=False)
    assert [type(change) for change in changes.changes] == [Create, Add, Add]


def test_a_ufm_that_reports_no_services_is_not_sent_them_again() -> None:
    assert planned(partition(), msgspec.structs.replace(HAVE, qos=None), NOW, named=False).changes == ()


def test_services_that_differ_are_set_and_no_other_change_is_made() -> None:
    other = partition(service_level=4)
    assert planned(other, HAVE, NOW, named=False).changes == (SetQos(other.wanted(named=False)),)


def test_ports_are_removed_before_others_are_added_unless_none_would_be_left() -> None:
    members = (member(0, state=MemberState.LEAVING), member(1), member(2, state=MemberState.PENDING))
    remove, add = planned(partition(members=members), HAVE, NOW, named=False).changes
    assert isinstance(add, Add) and add.guids == (GUIDS[2],)
    assert remove == RemovePorts(WANTED, (GUIDS[0],))
    alone = msgspec.structs.replace(HAVE, ports={GUIDS[0]: PartitionPort()})
    changes = planned(partition(members=members), alone, NOW, named=False).changes
    assert [type(change) for change in changes] == [Add, RemovePorts]


def test_ports_that_were_refused_are_added_last() -> None:
    members = (member(2, state=MemberState.REFUSED), member(3, state=MemberState.PENDING))
    changes = planned(partition(members=members), None, NOW, named=False).changes
    assert [change.guids for change in changes if isinstance(change, Add)] == [(GUIDS[3],), (GUIDS[2],)]


def test_many_ports_go_in_requests_of_a_bounded_size() -> None:
    members = tuple(member(number, state=MemberState.LEAVING) for number in range(350))
    have = msgspec.structs.replace(HAVE, ports=dict.fromkeys(GUIDS[:350], PartitionPort()))
    changes = planned(partition(members=members), have, NOW, named=False).changes
    assert [len(change.guids) for change in changes if isinstance(change, RemovePorts)] == [MOST_AT_ONCE] * 3 + [50]


def test_a_stranger_is_recorded_and_removed_only_after_the_delay() -> None:
    have = msgspec.structs.replace(HAVE, ports={**HAVE.ports, GUIDS[9]: PartitionPort()})
    first = planned(partition(), have, NOW, named=False)
    assert (first.changes, first.strangers) == ((), (Stranger(GUIDS[9], NOW),))
    known = partition(strangers=first.strangers)
    early = planned(known, have, NOW + SEEN_AGAIN_AFTER - timedelta(seconds=1), named=False)
    assert early.changes == () and early.strangers == first.strangers
    late = planned(known, have, NOW + SEEN_AGAIN_AFTER, named=False)
    assert late.changes == (RemovePorts(WANTED, (GUIDS[9],)),) and late.removed == (GUIDS[9],)


def test_the_delay_before_a_stranger_is_removed_spans_two_readings() -> None:
    assert SEEN_AGAIN_AFTER >= 2 * READING_KEPT


def test_set_ports_keeps_new_strangers_and_leaves_out_ports_that_leave() -> None:
    ports = {GUIDS[0]: PartitionPort(Membership.LIMITED), GUIDS[1]: PartitionPort(), GUIDS[9]: PartitionPort()}
    members = (member(0), member(1, state=MemberState.LEAVING), member(2, state=MemberState.PENDING))
    have = msgspec.structs.replace(HAVE, ports=ports)
    change, remove, add = planned(partition(members=members), have, NOW, named=False).changes
    assert isinstance(change, SetPorts)
    assert change.ports == {GUIDS[0]: PartitionPort(), GUIDS[9]: PartitionPort()} and change.off == (GUIDS[0],)
    assert remove == RemovePorts(WANTED, (GUIDS[1],))
    assert isinstance(add, Add) and add.guids == (GUIDS[2],)


def test_ports_are_not_set_to_an_empty_list_while_ports_wait_to_be_added() -> None:
    members = (member(0, state=MemberState.LEAVING), member(2, state=MemberState.PENDING))
    have = msgspec.structs.replace(HAVE, name="theirs", ports={GUIDS[0]: PartitionPort()})
    changes = planned(partition(members=members), have, NOW, named=True).changes
    assert [type(change) for change in changes] == [Add, RemovePorts]


def test_members_are_marked_by_the_partition_that_was_read() -> None:
    members = (
        member(0, state=MemberState.PENDING, seq=3),
        member(1, membership=Membership.LIMITED),
        member(2, state=MemberState.PENDING),
        member(3, state=MemberState.LEAVING, seq=7),
    )
    assert list(marks(partition(members=members), HAVE, {GUIDS[2]: "no"})) == [
        Marked(guid=GUIDS[0], seq=3, state=MemberState.APPLIED),
        Marked(guid=GUIDS[1], seq=1, state=MemberState.PENDING),
        Marked(guid=GUIDS[2], seq=1, state=MemberState.REFUSED, reason="no"),
        Left(guid=GUIDS[3], seq=7),
    ]


class Refusing:
    """A `protocols.UfmClient` that refuses every change; tests make no other calls."""

    named = False

    def __init__(self) -> None:
        self.requests = 0

    async def do(self, _change: PartitionChange) -> None:
        self.requests += 1
        raise UfmError(UfmFailure.ABSENT, "unknown port")


@pytest.mark.parametrize(("ports", "requests"), [(1, 1), (4, 7), (300, MOST_REQUESTS)])
async def test_a_bounded_number_of_requests_is_sent_if_ufm_refuses_every_port(ports: int, requests: int) -> None:
    client: Any = Refusing()
    members = tuple(member(number, state=MemberState.PENDING) for number in range(ports))
    plan = planned(partition(members=members), msgspec.structs.replace(HAVE, ports={}), NOW, named=False)
    refused = await make(client, plan.changes)
    assert client.requests == requests
    assert "unknown port" in refused.text
