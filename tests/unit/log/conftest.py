"""A stream to which the log is written."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from farrier import log
from tests.support import logged


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    with logged.restored():
        yield


@pytest.fixture
def out() -> io.StringIO:
    stream = io.StringIO()
    log.configure(log.Level.INFO, log.Format.AUTO, stream=stream)
    return stream
