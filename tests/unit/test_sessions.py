"""Sessions of browsers: only this process can begin a session, which ends after its time or with its token."""

from __future__ import annotations

from datetime import timedelta

from farrier.web.server.sessions import LIFETIME, BrowserSessions, name_of
from tests.support.clock import HandClock

DIGEST, OTHER = "a" * 64, "b" * 64


def test_a_session_is_valid_for_its_lifetime_and_names_its_token() -> None:
    clock = HandClock()
    sessions = BrowserSessions(clock)
    session = sessions.begin("ann", DIGEST)
    assert name_of(session) == "ann"
    clock.advance(LIFETIME - timedelta(seconds=1))
    assert sessions.holds(session, DIGEST)
    clock.advance(timedelta(seconds=1))
    assert not sessions.holds(session, DIGEST)


def test_an_altered_session_or_one_of_another_token_or_process_is_invalid() -> None:
    sessions = BrowserSessions(HandClock())
    session = sessions.begin("ann", DIGEST)
    name, until, signature = session.split(":")
    altered = (
        f"bob:{until}:{signature}",
        f"{name}:{until}9:{signature}",
        f"{name}:{until}:{signature[:-1]}",
        "",
        "::é",
    )
    assert not any(sessions.holds(each, DIGEST) for each in altered)
    assert not sessions.holds(session, OTHER)
    assert not BrowserSessions(HandClock()).holds(session, DIGEST)
