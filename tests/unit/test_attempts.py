"""Failed logins are limited for each address, and remembered in bounded memory."""

from __future__ import annotations

from datetime import timedelta

from farrier.web.server import attempts
from farrier.web.server.attempts import AT_ONCE, MOST_ADDRESSES, SECONDS_EACH, Attempts
from tests.support.clock import HandClock


def failed(times: int, clock: HandClock, address: str = "192.0.2.1") -> Attempts:
    tried = Attempts(clock)
    for _ in range(times):
        tried.failed(address)
    return tried


def test_an_address_may_fail_a_few_times_at_once_and_then_has_to_wait_for_each_attempt() -> None:
    clock = HandClock(1000.0)
    assert failed(AT_ONCE - 1, clock).wait("192.0.2.1") == 0
    tried = failed(AT_ONCE, clock)
    assert tried.wait("192.0.2.1") == SECONDS_EACH
    clock.advance(timedelta(seconds=SECONDS_EACH))
    assert tried.wait("192.0.2.1") == 0
    tried.failed("192.0.2.1")
    assert tried.wait("192.0.2.1") == SECONDS_EACH


def test_an_address_waits_for_its_own_failures_only() -> None:
    tried = failed(AT_ONCE, HandClock())
    assert tried.wait("192.0.2.2") == 0


def test_all_addresses_of_an_ipv6_network_share_one_limit() -> None:
    tried = failed(AT_ONCE, HandClock(), "2001:db8::1")
    assert tried.wait("2001:db8::2:3") > 0
    assert tried.wait("2001:db8:0:1::1") == 0


def test_memory_is_bounded_and_the_oldest_addresses_are_forgotten_first() -> None:
    clock = HandClock()
    tried = failed(AT_ONCE, clock, "the first")
    for number in range(MOST_ADDRESSES - 1):
        tried.failed(f"client {number}")
    assert tried.wait("the first") > 0
    tried.failed("one more")
    assert tried.wait("the first") == 0
    assert len(tried) == MOST_ADDRESSES


def test_an_address_fails_at_most_a_few_hundred_times_an_hour() -> None:
    clock, made = HandClock(), 0
    tried = Attempts(clock)
    for _ in range(3600):
        while not tried.wait("192.0.2.1"):
            tried.failed("192.0.2.1")
            made += 1
        clock.advance(timedelta(seconds=1))
    assert made <= attempts.AT_ONCE + 3600 / SECONDS_EACH
