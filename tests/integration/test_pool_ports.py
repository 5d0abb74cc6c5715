"""Connections: an invalid port number is an error of the settings, on every event loop."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier import errors
from farrier.io.connections import pool

NOW = timedelta(0)


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://me:hunter2@127.0.0.1:99999/farrier", "postgresql://me@127.0.0.1:99999/farrier"),
        ("postgresql://me:hunter2@127.0.0.1:0/farrier", "postgresql://me@127.0.0.1:0/farrier"),
        ("postgresql://me:hunter2@127.0.0.1:-1/farrier", "(unreadable DSN)"),
        ("postgresql://me:hunter2@[::1],127.0.0.1:70000/farrier", "postgresql://me@[::1],127.0.0.1:70000/farrier"),
        ("postgresql://me:hunter2@/farrier?host=127.0.0.1&port=70000", "port=70000"),
        ("postgresql://me:20010911/farrier", "(unreadable DSN)"),  # a password without its host
    ],
)
async def test_an_invalid_port_is_named_and_the_password_is_not(dsn: str, shown: str) -> None:
    for attempt in (pool.connect, lambda dsn, patience: pool.open_pool(dsn, size=1, patience=patience)):
        with pytest.raises(errors.ConfigError, match="expected a port from 1 to 65535") as caught:
            await attempt(dsn, patience=NOW)
        assert shown in str(caught.value)
        assert caught.value.exit_code is errors.ExitCode.USAGE
        assert "hunter2" not in str(caught.value)
        assert "20010911" not in str(caught.value)


async def test_an_invalid_port_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "99999")
    with pytest.raises(errors.ConfigError, match="PGPORT"):
        await pool.connect("postgresql://127.0.0.1/farrier", patience=NOW)
