"""What a name may do is limited for each name, and remembered in bounded memory."""

from __future__ import annotations

from datetime import timedelta

from farrier.web.server.buckets import Buckets, client_of
from tests.support.clock import HandClock

AT_ONCE, SECONDS_EACH, MOST = 10, 6.0, 100


def spent(clock: HandClock, name: str = "192.0.2.1") -> Buckets:
    """Buckets of which that of the name has just become empty."""
    buckets = Buckets(clock, at_once=AT_ONCE, seconds_each=SECONDS_EACH, most=MOST)
    for _ in range(AT_ONCE):
        assert buckets.wait(name) == 0
        buckets.spend(name)
    return buckets


def test_a_name_may_act_a_few_times_at_once_and_then_has_to_wait_for_each_time() -> None:
    clock = HandClock(1000.0)
    buckets = spent(clock)
    assert buckets.wait("192.0.2.1") == SECONDS_EACH
    assert buckets.wait("192.0.2.2") == 0, "it waits only for itself"
    clock.advance(timedelta(seconds=SECONDS_EACH))
    assert buckets.wait("192.0.2.1") == 0
    buckets.spend("192.0.2.1")
    assert buckets.wait("192.0.2.1") == SECONDS_EACH


def test_all_addresses_of_an_ipv6_network_are_one_client() -> None:
    assert client_of("2001:db8::1") == client_of("2001:db8::2:3") != client_of("2001:db8:0:1::1")
    assert client_of("::ffff:192.0.2.1") != client_of("::ffff:192.0.2.2")


def test_memory_is_bounded_and_the_oldest_names_are_forgotten_first() -> None:
    buckets = spent(HandClock(), "the first")
    for number in range(MOST - 1):
        buckets.spend(f"client {number}")
    assert buckets.wait("the first") > 0
    buckets.spend("one more")
    assert buckets.wait("the first") == 0
    assert len(buckets) == MOST
