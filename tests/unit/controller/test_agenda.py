"""The agenda of a loop: each rule by which an entry goes from one phase to the next."""

from __future__ import annotations

import math

import pytest

from farrier.controller.agenda import Agenda, AgendaEntry, Phase

NOW = 1000.0
PERIOD = 30.0
RELOAD = 300.0


def agenda_of(*ids: int, marked: int | None = None) -> Agenda[str]:
    """An agenda with one shard, none of whose resources is loaded yet."""
    agenda: Agenda[str] = Agenda(reload_every=RELOAD, shards=1)
    agenda.took([0], dict.fromkeys(ids, False), {} if marked is None else {marked: "work"})
    return agenda


def loaded(agenda: Agenda[str], *, wakes: tuple[int, ...] = ()) -> list[AgendaEntry[str]]:
    """Load the waiting entries; returns those to run."""
    return [entry for entry in agenda.load(1000) if agenda.loaded(entry, "snapshot", wakes, now=NOW)]


def at_rest(*ids: int) -> Agenda[str]:
    agenda = agenda_of(*ids)
    for entry in loaded(agenda):
        agenda.rests(entry, NOW + PERIOD, outcome="nothing to do")
    return agenda


def taken(agenda: Agenda[str], after: float) -> list[AgendaEntry[str]]:
    """Take the due entries; returns those that run over their snapshots in memory, and has the others loaded."""
    entries = agenda.wheel.take(NOW + after, 1000)
    old = [entry for entry in entries if entry.snapshot is None or entry.reload_at <= NOW + after]
    for entry in old:
        agenda.reload(entry, NOW + after)
    return [entry for entry in entries if entry not in old]


def due(agenda: Agenda[str], after: float) -> list[int]:
    return sorted(entry.id for entry in taken(agenda, after))


def test_a_notification_enqueues_known_resources_and_an_unknown_one_requires_a_poll() -> None:
    """Any login may notify farrier_wake. Each entry takes memory, and real wakes would wait behind their loads."""
    agenda = at_rest(1, 2)
    assert agenda.woken([2, 404, 405])
    assert [entry.id for entry in agenda.load(1000)] == [2]
    assert len(agenda) == 2
    assert not agenda.woken([1])


def test_a_resource_at_rest_is_run_over_memory_when_it_is_due_and_not_before() -> None:
    agenda = at_rest(1)
    assert due(agenda, PERIOD - 1) == []
    assert due(agenda, PERIOD + 1) == [1]
    assert agenda.load_at == math.inf


def test_each_resource_is_run_once_a_period_regardless_of_wakes() -> None:
    agenda = at_rest(1)
    for _ in range(3):
        agenda.woken([1])
        for entry in loaded(agenda):
            agenda.rests(entry, NOW + PERIOD, outcome="nothing to do")
    assert due(agenda, PERIOD + 1) == [1]


def test_a_confirmed_snapshot_is_used_by_the_next_run_with_the_stored_outcome() -> None:
    agenda = at_rest(1)
    agenda.woken([1])
    [entry] = loaded(agenda, wakes=(7,))
    assert agenda.confirms(entry, "confirmed", NOW + PERIOD) == (7,)
    [entry] = taken(agenda, PERIOD + 1)
    assert (entry.snapshot, entry.confirmed, entry.outcome) == ("confirmed", "confirmed", "nothing to do")


def test_a_resource_confirmed_after_a_commit_rests_on_no_outcome() -> None:
    """The commit may have stored another outcome, so on this snapshot only a step that observes may begin."""
    agenda = at_rest(1)
    agenda.woken([1])
    [entry] = loaded(agenda)
    agenda.commits(entry)
    agenda.committed(entry, None)
    [entry] = loaded(agenda)
    agenda.confirms(entry, "confirmed", NOW + PERIOD)
    assert (entry.snapshot, entry.outcome) == ("confirmed", None)


def test_a_wake_during_a_confirming_run_leads_to_another_load() -> None:
    agenda = at_rest(1)
    agenda.woken([1])
    [entry] = loaded(agenda)
    agenda.acts(entry, "work")
    agenda.woken([1])
    agenda.confirms(entry, "confirmed", NOW + PERIOD)
    assert [each.id for each in agenda.load(10)] == [1]


def test_a_commit_over_an_old_snapshot_is_refused() -> None:
    agenda = at_rest(1)
    [entry] = taken(agenda, PERIOD + 1)
    with pytest.raises(AssertionError, match="only a run"):
        agenda.commits(entry)


def test_a_snapshot_is_loaded_again_after_a_while_and_not_all_at_once() -> None:
    agenda = at_rest(*range(100))
    reloads = {0.0: 0.0}
    at = 0.0
    while at < RELOAD + PERIOD:
        at += PERIOD + 1
        for entry in taken(agenda, at):
            agenda.wheel.put(entry, NOW + at + PERIOD)
        again = agenda.load(1000, mass=True)
        reloads[at] = len(again)
    assert sum(reloads.values()) == 100
    assert max(reloads.values()) < 100


def test_old_snapshots_are_loaded_together_and_with_no_wake_and_missing_snapshots_at_once() -> None:
    agenda = at_rest(1, 2)
    old = NOW + RELOAD + PERIOD
    for entry in agenda.wheel.take(old, 1000):
        agenda.reload(entry, old)
    assert old < agenda.load_at <= old + 1
    agenda.woken([1])
    assert agenda.load_at <= old
    assert [entry.id for entry in agenda.load(10)] == [1], "a wake waits for no old snapshot"
    assert agenda.load(10, mass=True, now=old) == [] != agenda.load(10, mass=True, now=old + 1)
    agenda = agenda_of(1)
    for entry in loaded(agenda):
        agenda.defer(entry, NOW + 1)
    assert due(agenda, 2) == []
    assert agenda.load_at <= NOW


def test_old_snapshots_are_loaded_at_once_if_they_fill_a_load() -> None:
    agenda = at_rest(*range(1000))
    old = NOW + RELOAD + PERIOD
    for entry in agenda.wheel.take(old, 1000):
        agenda.reload(entry, old)
    assert agenda.load_at <= old


def test_a_wake_that_is_heard_while_a_load_is_under_way_leads_to_another_load() -> None:
    agenda = agenda_of(1)
    [entry] = agenda.load(1)
    agenda.woken([1])
    agenda.loaded(entry, "snapshot of before", (), now=NOW)
    agenda.rests(entry, NOW + PERIOD)
    assert [each.id for each in agenda.load(1)] == [1]


@pytest.mark.parametrize("phase", [Phase.ACTING, Phase.COMMITTING])
def test_a_wake_that_is_heard_while_a_run_is_under_way_leads_to_a_load_after_it(phase: Phase) -> None:
    agenda = agenda_of(1)
    [entry] = loaded(agenda)
    if phase is Phase.ACTING:
        agenda.acts(entry, "work")
    agenda.woken([1])
    agenda.commits(entry)
    agenda.committed(entry, NOW + PERIOD)
    assert [each.id for each in agenda.load(1)] == [1]


def test_the_wakes_to_delete_are_those_that_the_snapshot_saw() -> None:
    agenda = agenda_of(1)
    [entry] = loaded(agenda, wakes=(4, 5))
    assert agenda.rests(entry, NOW + PERIOD, outcome="nothing to do") == (4, 5)
    assert entry.wakes == ()


def test_a_deferred_run_deletes_no_wake_and_is_loaded_again_later() -> None:
    agenda = agenda_of(1)
    [entry] = loaded(agenda, wakes=(4,))
    agenda.defer(entry, NOW + 1)
    assert agenda.load(1) == []
    assert due(agenda, 2) == []
    assert [each.id for each in agenda.load(1)] == [1]


def test_no_load_of_others_contains_resources_that_were_woken_together() -> None:
    agenda = at_rest(*range(1, 201))
    agenda.woken_together(range(1, 101))
    agenda.woken(range(101, 141))
    agenda.woken_together([300])
    for entry in [agenda.entry(id_) for id_ in range(141, 201)]:
        assert entry is not None
        agenda.reload(entry, NOW)
    others = [entry.id for _ in range(10) for entry in agenda.load(20)]
    mass = [entry.id for _ in range(9) for entry in agenda.load(20, mass=True)]
    assert (sorted(others), sorted(mass)) == ([*range(101, 141)], [*range(1, 101), *range(141, 201), 300])


def test_a_resource_with_quiet_wakes_alone_is_loaded_with_those_for_which_nobody_waits() -> None:
    agenda = at_rest(1, 2)
    agenda.polled({1: {4}, 2: {5}}, loud={2})
    assert [entry.id for entry in agenda.load(10)] == [2]
    assert [entry.id for entry in agenda.load(10, mass=True)] == [1]


def test_a_resource_for_which_nobody_waits_stays_such_until_it_rests() -> None:
    agenda = at_rest(1)
    agenda.woken_together([1])
    [entry] = agenda.load(1, mass=True)
    assert agenda.loaded(entry, "snapshot", (4,), now=NOW)
    assert agenda.commits(entry)
    agenda.committed(entry, None)
    assert agenda.load(1) == []
    assert agenda.load(1, mass=True) == [entry]


def test_a_wake_of_its_own_overtakes_the_resources_that_were_woken_together() -> None:
    agenda = at_rest(*range(1, 101))
    agenda.woken_together(range(1, 101))
    agenda.woken([77])
    assert 77 in [entry.id for entry in agenda.load(4)]


def test_resources_whose_load_left_out_wakes_are_loaded_again_after_their_runs() -> None:
    agenda = at_rest(1)
    agenda.woken([1])
    [entry] = agenda.load(1)
    agenda.partly_loaded([entry])
    agenda.loaded(entry, "snapshot", (4,), now=NOW)
    assert agenda.rests(entry, NOW + 30, outcome="nothing") == (4,)
    assert [each.id for each in agenda.load(1, mass=True)] == [1]


def test_a_wake_that_a_poll_finds_for_a_resource_that_was_made_since_makes_its_entry() -> None:
    agenda = at_rest(1)
    agenda.polled({2: {4}})
    assert [entry.id for entry in agenda.load(10)] == [2]


def test_a_wake_of_an_unowned_shard_is_ignored() -> None:
    agenda: Agenda[str] = Agenda(reload_every=RELOAD, shards=2)
    agenda.took([0], {2: False}, {})
    assert not agenda.woken([3])
    assert len(agenda) == 1


def test_resources_without_a_wake_are_found_by_the_list_of_ids() -> None:
    agenda = at_rest(1, 2)
    agenda.listed([0], [2, 3])
    assert sorted(entry.id for entry in agenda.load(10)) == [1, 3]


@pytest.mark.parametrize("found", [False, True], ids=["missing", "ended by a commit"])
def test_a_missing_or_ended_resource_is_forgotten_unless_it_was_enqueued_meanwhile(found: bool) -> None:
    agenda = agenda_of(1, 2)
    entries = loaded(agenda) if found else agenda.load(2)
    if found:
        assert all(agenda.commits(entry) for entry in entries)
    agenda.woken([2])
    for entry in entries:
        agenda.ended(entry)
    assert [entry.id for entry in agenda.load(10)] == [2]
    assert len(agenda) == 1


def test_an_entry_whose_commit_is_unknown_is_closed_until_it_is_settled() -> None:
    agenda = agenda_of(1)
    [entry] = loaded(agenda)
    agenda.commits(entry)
    agenda.unknown(entry)
    agenda.woken([1])
    assert agenda.load_at == math.inf
    agenda.requeue(entry)
    assert [each.id for each in agenda.load(1)] == [1]


def test_the_entries_of_a_lost_shard_are_removed() -> None:
    agenda = agenda_of(1, 2)
    acting, committing = loaded(agenda)
    agenda.acts(acting, "work")
    agenda.commits(committing)
    agenda.lost(0)
    assert not agenda.under_way
    agenda.committed(committing, None)
    assert not agenda.commits(acting)
    assert len(agenda) == 0


def test_a_snapshot_of_an_earlier_epoch_is_not_run() -> None:
    agenda = agenda_of(1)
    [entry] = agenda.load(1)
    agenda.took([0], {1: False}, {})
    assert not agenda.loaded(entry, "snapshot of before", (), now=NOW)


def test_a_shard_is_quiet_while_no_step_and_no_commit_of_it_is_under_way() -> None:
    agenda = agenda_of(1)
    [entry] = loaded(agenda)
    assert agenda.is_quiet(0)
    agenda.acts(entry, "work")
    assert not agenda.is_quiet(0)
    agenda.commits(entry)
    assert not agenda.is_quiet(0)
    agenda.committed(entry, NOW + PERIOD)
    assert agenda.is_quiet(0)


def test_a_step_that_was_decided_before_its_shard_was_lost_does_not_begin() -> None:
    agenda = agenda_of(1)
    [entry] = loaded(agenda)
    agenda.lost(0)
    with pytest.raises(AssertionError, match="only a run"):
        agenda.acts(entry, "work")
    assert not agenda.under_way


def test_a_step_that_has_nothing_to_write_leaves_its_resource_at_rest() -> None:
    agenda = agenda_of(1)
    [entry] = loaded(agenda, wakes=(4,))
    agenda.acts(entry, "work")
    assert agenda.rests(entry, NOW + PERIOD) == (4,)
    assert agenda.is_quiet(0)
    assert due(agenda, PERIOD + 1) == []
    assert [each.id for each in agenda.load(1)] == [1], "without a snapshot in memory it has to be loaded"


def test_a_run_whose_commit_failed_is_decided_again_at_once_or_when_it_is_due() -> None:
    agenda = agenda_of(1, 2)
    first, second = loaded(agenda)
    for entry in (first, second):
        agenda.commits(entry)
    agenda.requeue(first)
    agenda.defer(second, NOW + 1)
    assert [entry.id for entry in agenda.load(10)] == [1]
    assert due(agenda, 2) == []
    assert [entry.id for entry in agenda.load(10)] == [2]


def test_a_quarter_of_a_load_is_left_for_due_resources_behind_enqueued_ones() -> None:
    agenda: Agenda[str] = Agenda(reload_every=RELOAD, shards=1)
    agenda.took([0], {id_: id_ > 10 for id_ in range(1, 21)}, {})
    assert [entry.id for entry in agenda.load(8)] == [11, 12, 13, 14, 15, 16, 1, 2]


def test_resources_that_are_enqueued_during_each_run_run_in_turn() -> None:
    agenda, order = at_rest(*range(10)), list[int]()
    agenda.woken(range(10))
    while len(order) < 100:
        for entry in agenda.load(4):
            order.append(entry.id)
            agenda.loaded(entry, "snapshot", (), now=NOW)
            agenda.woken([entry.id])
            agenda.rests(entry, NOW + PERIOD, outcome="nothing to do")
    assert order == [*range(10)] * 10


def test_a_polled_wake_that_the_snapshot_has_already_seen_leads_to_no_load() -> None:
    agenda = agenda_of(1)
    [entry] = loaded(agenda, wakes=(4,))
    agenda.acts(entry, "work")
    agenda.polled({1: {4}})
    assert not entry.again
    agenda.polled({1: {4, 5}})
    assert entry.again


def test_a_mark_that_was_found_with_the_shard_makes_the_first_run_recover() -> None:
    agenda = agenda_of(1, 2, marked=2)
    first, second = loaded(agenda)
    assert (first.step, second.step) == (None, "work")


def test_an_unfinished_step_makes_the_next_run_recover() -> None:
    agenda = agenda_of(1)
    [entry] = loaded(agenda)
    agenda.acts(entry, "work")
    agenda.requeue(entry)
    [again] = loaded(agenda)
    assert again.step == "work"


def test_a_queue_that_is_never_empty_is_late_only_while_the_same_entries_wait() -> None:
    agenda = agenda_of(1)
    assert agenda.lag(NOW) == 0
    agenda.polled({2: {4}})
    assert agenda.lag(NOW + 2) == 2
    agenda.load(1000)
    agenda.polled({3: {5}})
    assert agenda.lag(NOW + 4) == 0
    assert agenda.lag(NOW + 9) == 5


def test_a_load_that_repeatedly_fails_makes_its_entries_late() -> None:
    agenda = agenda_of(1)
    agenda.lag(NOW)
    for _ in range(3):
        agenda.not_loaded(agenda.load(1000))
    assert agenda.lag(NOW + 6) == 6
