"""Ownership of shards: fair shares, expiry by the observer's own clock, and the results of renewals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from farrier.controller.ownership import EXPIRED_AFTER, GIVE_UP_AFTER, RENEW_EVERY, SETTLED_AFTER, Ownership
from farrier.model.loop.controllers import ACT_FOR, SHARDS, ControllerRow, Renewal, Shard, ShardRow

KINDS = frozenset({"node"})
START = 100.0
ME, YOU, OTHER, GONE = (UUID(int=number) for number in (1, 2, 3, 4))


def joined(id_: UUID = ME) -> Ownership:
    ownership = Ownership()
    ownership.kinds = KINDS
    ownership.read_timeline("1", START)
    ownership.join(id_, START)
    return ownership


def rows(owners: Mapping[int, UUID | None], *, epoch: int = 1) -> tuple[ShardRow, ...]:
    """The rows of all shards of one kind; a shard that is not in the argument has no owner."""
    return tuple(ShardRow(("node", number), owners.get(number), epoch) for number in range(SHARDS))


def live(*ids: UUID, renewals: int = 1) -> list[ControllerRow]:
    return [ControllerRow(id_, KINDS, renewals, "1") for id_ in ids]


def renewed(
    ownership: Ownership,
    controllers: Sequence[ControllerRow],
    shards: Sequence[ShardRow],
    sent_at: float = START,
    *,
    row: bool = True,
) -> tuple[Shard, ...]:
    """Record a renewal that found these rows. Returns the shards that were lost."""
    seen = Renewal(row, "1", 0.0, tuple(controllers), False, tuple(shards))
    return ownership.renewed(seen, sent_at)


def taken(ownership: Ownership) -> tuple[Shard, ...]:
    return ownership.plan(START).take


def test_the_only_controller_takes_every_shard() -> None:
    ownership = joined()
    renewed(ownership, live(ME), rows({}))
    assert len(taken(ownership)) == SHARDS


def test_two_controllers_take_half_each_and_begin_with_different_ones() -> None:
    first, second = joined(ME), joined(YOU)
    for ownership in (first, second):
        renewed(ownership, live(ME, YOU), rows({}))
    assert len(taken(first)) == len(taken(second)) == SHARDS // 2
    assert taken(first)[0] != taken(second)[0]


def test_a_controller_that_does_not_run_the_kind_has_no_share() -> None:
    ownership = joined()
    other = ControllerRow(OTHER, frozenset({"maas_region"}), 1, "1")
    renewed(ownership, [*live(ME), other], rows({}))
    assert len(taken(ownership)) == SHARDS


def test_a_controller_that_leaves_has_no_share() -> None:
    ownership = joined()
    ownership.took({("node", number): 1 for number in range(SHARDS // 2)})
    leaving = ControllerRow(YOU, KINDS, 1, "1", leaving=True)
    renewed(ownership, [*live(ME), leaving], rows(dict.fromkeys(range(SHARDS // 2), ME)))
    assert len(taken(ownership)) == SHARDS // 2, "it takes what the other has given back"


def test_a_controller_that_leaves_closes_all_shards_and_takes_none() -> None:
    ownership = joined()
    ownership.took({("node", 1): 1})
    ownership.leaving = True
    renewed(ownership, live(ME), rows({1: ME}))
    assert taken(ownership) == ()
    assert set(ownership.closing) == {("node", 1)}


def test_a_controller_that_renewed_only_before_a_promotion_is_declared_dead_when_it_can_no_longer_act() -> None:
    ownership = joined()
    ownership.read_timeline("2", START + 10)
    isolated, follower = ControllerRow(YOU, KINDS, 1, "1"), ControllerRow(OTHER, KINDS, 1, "2")
    renewed(ownership, [isolated, follower], rows({0: YOU}), START + 10)
    assert ownership.plan(START + 10 + ACT_FOR).expired == ()
    assert [each.id for each in ownership.plan(START + 10 + SETTLED_AFTER).expired] == [YOU]
    assert ACT_FOR < SETTLED_AFTER < EXPIRED_AFTER


def test_a_controller_that_joins_gets_its_share_from_those_that_have_more() -> None:
    ownership = joined()
    ownership.took({("node", number): 1 for number in range(SHARDS)})
    renewed(ownership, live(ME, YOU), rows(dict.fromkeys(range(SHARDS), ME)))
    ownership.plan(START)
    assert len(ownership.closing) == SHARDS // 2


def test_a_closing_shard_is_kept_when_it_is_no_longer_too_many() -> None:
    ownership = joined()
    ownership.took({("node", number): 1 for number in range(SHARDS)})
    for controllers, count in ((live(ME, YOU), SHARDS // 2), (live(ME), 0)):
        renewed(ownership, controllers, rows(dict.fromkeys(range(SHARDS), ME)))
        ownership.plan(START)
        assert len(ownership.closing) == count


def test_a_controller_without_new_renewals_for_ten_observed_seconds_is_declared_dead() -> None:
    ownership = joined()
    seconds = START
    while seconds - START < EXPIRED_AFTER:
        renewed(ownership, live(ME, YOU), rows({0: YOU}), seconds)
        assert ownership.plan(START).expired == ()
        seconds += RENEW_EVERY
    renewed(ownership, live(ME, YOU), rows({0: YOU}), seconds)
    assert [each.id for each in ownership.plan(START).expired] == [YOU]
    assert ("node", 0) in taken(ownership)


def test_an_observed_renewal_restarts_the_count() -> None:
    ownership = joined()
    for second in range(60):
        renewed(ownership, live(ME, YOU, renewals=second // 8), rows({}), START + second)
        assert ownership.plan(START).expired == ()


def test_after_an_outage_no_controller_is_declared_dead_within_ten_seconds() -> None:
    ownership = joined()
    outage = 3600.0
    for seconds in (0.0, 2.0, 4.0, 6.0, 6.0 + outage, 8.0 + outage, 15.0 + outage):
        renewed(ownership, live(ME, YOU), rows({}), START + seconds)
        assert ownership.plan(START).expired == ()


def test_a_controller_is_declared_dead_also_by_reads_of_an_overloaded_database() -> None:
    """Four intervals of six seconds count for three seconds each."""
    ownership = joined()
    for seconds in (0.0, 6.0, 12.0, 18.0):
        renewed(ownership, live(ME, YOU), rows({}), START + seconds)
        assert ownership.plan(START).expired == ()
    renewed(ownership, live(ME, YOU), rows({}), START + 24.0)
    assert [each.id for each in ownership.plan(START).expired] == [YOU]


def test_the_time_of_a_short_pause_of_the_observer_counts_for_three_seconds() -> None:
    ownership = joined()
    for seconds in (0.0, 2.0, 4.0, 13.0, 15.0):
        renewed(ownership, live(ME, YOU), rows({}), START + seconds)
        assert ownership.plan(START).expired == ()


def test_an_owner_without_a_row_counts_as_dead_at_once() -> None:
    ownership = joined()
    renewed(ownership, live(ME), rows({3: GONE}))
    assert ("node", 3) in taken(ownership)


def test_a_shard_of_a_living_controller_is_not_taken() -> None:
    ownership = joined()
    renewed(ownership, live(ME, YOU), rows(dict.fromkeys(range(SHARDS), YOU)))
    assert taken(ownership) == ()


def test_a_controller_acts_for_six_seconds_after_it_sent_a_renewal() -> None:
    ownership = joined()
    renewed(ownership, live(ME), rows({}), START + 10)
    assert ownership.acts_until == START + 10 + ACT_FOR


def test_a_renewal_without_a_row_loses_all_shards() -> None:
    ownership = joined()
    ownership.took({("node", 1): 4})
    assert renewed(ownership, live(YOU), rows({1: ME}, epoch=4), row=False) == (("node", 1),)
    assert ownership.acts_until < START


def test_a_controller_that_gave_up_while_shards_were_closing_joins_again_with_none_of_them() -> None:
    """A shard that it takes again must not count as closing: its steps would not begin, and it would be given back."""
    ownership = joined()
    ownership.took({("node", number): 1 for number in range(SHARDS)})
    renewed(ownership, live(ME, YOU), rows(dict.fromkeys(range(SHARDS), ME)))
    ownership.plan(START)
    assert ownership.closing
    assert len(ownership.abandoned()) == SHARDS
    assert (ownership.held, ownership.closing) == ({}, {})


def test_a_shard_that_came_back_under_another_epoch_is_lost() -> None:
    """Another controller owned it in between; the snapshots in memory were loaded under the former epoch."""
    ownership = joined()
    ownership.took({("node", 1): 4, ("node", 2): 4})
    shards = [ShardRow(("node", 1), ME, 6), ShardRow(("node", 2), ME, 4)]
    assert renewed(ownership, live(ME), shards) == (("node", 1),)
    assert ownership.held == {("node", 2): 4}


def test_a_take_whose_reply_was_lost_is_made_again() -> None:
    """The database lists the shard as owned, but nothing was loaded under that epoch."""
    ownership = joined()
    renewed(ownership, live(ME), rows({1: ME}, epoch=4))
    assert ("node", 1) in taken(ownership)


def test_a_shard_whose_release_failed_is_taken_again_although_the_share_is_full() -> None:
    """The database still names this controller as owner, so no other controller may take the shard."""
    ownership = joined()
    ownership.took({("node", number): 1 for number in range(SHARDS)})
    renewed(ownership, live(ME, YOU), rows(dict.fromkeys(range(SHARDS), ME)))
    ownership.plan(START)
    surplus = set(ownership.closing)
    ownership.gave_back(surplus)
    renewed(ownership, live(ME, YOU), rows(dict.fromkeys(range(SHARDS), ME)))
    assert set(taken(ownership)) == surplus


def test_a_controller_whose_replies_always_arrive_too_late_gives_up() -> None:
    ownership = joined()
    assert not ownership.is_out_of_touch(START + GIVE_UP_AFTER)
    assert ownership.is_out_of_touch(START + GIVE_UP_AFTER + 1)
