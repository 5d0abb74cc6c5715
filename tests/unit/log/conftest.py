"""A stream to which the log is written."""

from __future__ import annotations

import io

import pytest

from farrier import log


@pytest.fixture
def out() -> io.StringIO:
    stream = io.StringIO()
    log.configure(log.Level.INFO, log.Format.AUTO, stream=stream)
    return stream
