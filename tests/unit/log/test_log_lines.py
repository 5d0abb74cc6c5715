"""A line of the log: its exact format, that it is written whole, and that a failed write raises no error."""

from __future__ import annotations

import io
import json
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum, IntEnum, StrEnum
from typing import NamedTuple, TextIO

import pytest
import structlog
from hypothesis import assume, example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from typing_extensions import override

from farrier import log
from tests.support.logged import lines


class Colour(Enum):
    RED = "red"


class Stage(StrEnum):
    PROBE = "bmc.probe"


class Number(IntEnum):
    ONE = 1


class Spelled(str):
    """A subclass of str that msgspec cannot encode."""

    __slots__ = ()


class Shown(NamedTuple):
    name: str
    since: datetime


def _nested(inside: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(inside, max_size=3) | st.dictionaries(st.text() | st.integers(), inside, max_size=3)


# Values with lone surrogates, other than ASCII, numbers of any size, and NaN and infinities.
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, categories=None))
    | st.text(st.characters(max_codepoint=0x9F))
    | st.binary()
    | st.datetimes(timezones=st.just(UTC))
    | st.timedeltas()
    | st.decimals()
    | st.uuids()
    | st.frozensets(st.integers(), max_size=1)
    | st.builds(Spelled, st.text())
    | st.sampled_from(
        [
            Colour.RED,
            Stage.PROBE,
            Number.ONE,
            2**64,
            -(2**70),
            Shown("a", datetime.min.replace(tzinfo=UTC)),
            ValueError("é"),
        ]
    ),
    _nested,
    max_leaves=5,
)


@given(value=VALUES, key=st.text(st.characters(min_codepoint=0x20, categories=None)))
@example(value="\x7f", key="x")
@example(value=1, key="Ä")
@example(value="\udcff", key="x")
@example(value=1e16, key="x")
def test_a_line_is_exactly_the_output_of_json_dumps(value: object, key: str) -> None:
    assume(key not in {"event", "level", "timestamp", "exc_info"})
    stream = io.StringIO()
    log.configure(form=log.Format.JSON, stream=stream)
    structlog.stdlib.get_logger().info("state.moved", **{key: value}, stage=Stage.PROBE)
    (line,) = lines(stream)
    expected = {
        key: value,
        "stage": Stage.PROBE,
        "event": "state.moved",
        "level": "info",
        "timestamp": line["timestamp"],
    }
    assert stream.getvalue() == json.dumps(log.redact(None, "info", expected), default=str) + "\n"


def test_each_line_of_an_event_is_searched_for_secrets_again(out: io.StringIO) -> None:
    url = "https://me:hunter2@bmc.example/"
    for where, token in [("here", 1), (url, 1), ([url], 1), ({"by": {"password": "hunter2"}}, 1), ("here", "hunter2")]:
        structlog.stdlib.get_logger().info("connecting", where=where, token=token)
    assert "hunter2" not in out.getvalue()
    assert [line["token"] for line in lines(out)] == [1, 1, 1, 1, log.MASK]


def test_each_line_has_its_own_time(out: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds in (1_700_000_000.0, 1_700_000_000.5, 1_700_000_001.25, 1_699_999_999.75):
        monkeypatch.setattr(time, "time", lambda now=seconds: now)
        structlog.stdlib.get_logger().info("tick")
    assert [line["timestamp"] for line in lines(out)] == [
        "2023-11-14T22:13:20.000000Z",
        "2023-11-14T22:13:20.500000Z",
        "2023-11-14T22:13:21.250000Z",
        "2023-11-14T22:13:19.750000Z",
    ]


def test_a_changed_level_applies_to_existing_loggers(out: io.StringIO) -> None:
    logger = structlog.stdlib.get_logger("farrier.test")
    for level in (log.Level.ERROR, log.Level.DEBUG, log.Level.WARNING):
        log.configure(level, stream=out)
        logger.debug("detail", least=level)
        logger.warning("trouble", least=level)
        logging.getLogger("other.library").info("theirs at %s", level)
    assert [line["event"] for line in lines(out)] == ["detail", "trouble", "theirs at debug", "trouble"]


def test_a_logger_has_the_annotated_type_and_its_methods(out: io.StringIO) -> None:
    logger = structlog.stdlib.get_logger("farrier.test").bind(kind="node")
    assert isinstance(logger, structlog.stdlib.BoundLogger)
    assert (logger.isEnabledFor(logging.INFO), logger.isEnabledFor(logging.DEBUG)) == (True, False)
    logger.bind(id=7).info("ran")
    (line,) = lines(out)
    assert (line["kind"], line["id"]) == ("node", 7)


def test_captured_events_are_not_written_and_later_events_are(out: io.StringIO) -> None:
    logger = structlog.stdlib.get_logger()
    with capture_logs() as captured:
        logger.info("inside", id=7)
    logger.info("outside")
    assert captured == [{"event": "inside", "id": 7, "log_level": "info"}]
    assert [line["event"] for line in lines(out)] == ["outside"]


class Slow(io.StringIO):
    """A stream that lets other threads run after each letter."""

    def __init__(self) -> None:
        super().__init__()
        self.flushed = ""

    @override
    def write(self, text: str) -> int:
        for letter in text:
            super().write(letter)
            time.sleep(0)
        return len(text)

    @override
    def flush(self) -> None:
        self.flushed = self.getvalue()


def test_lines_of_several_threads_are_whole_and_flushed() -> None:
    stream = Slow()
    log.configure(stream=stream)

    def talk(number: int) -> None:
        for _ in range(10):
            structlog.stdlib.get_logger().info("ours", by=number)
            logging.getLogger("other.library").info("theirs")
            assert stream.flushed

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(talk, range(4)))
    assert stream.flushed == stream.getvalue()
    assert sorted(line["event"] for line in lines(stream)) == ["ours"] * 40 + ["theirs"] * 40


def test_a_line_is_one_write() -> None:
    class Pieces(io.StringIO):
        @override
        def write(self, text: str) -> int:
            pieces.append(text)
            return super().write(text)

    pieces: list[str] = []
    stream = Pieces()
    log.configure(stream=stream)
    structlog.stdlib.get_logger().info("started")
    structlog.stdlib.get_logger().info("seen", sites=["a"], where="é")
    assert "".join(pieces).splitlines(keepends=True) == pieces


def closed() -> tuple[TextIO, Callable[[], None]]:
    stream = io.StringIO()
    return stream, stream.close


def unread() -> tuple[TextIO, Callable[[], None]]:
    """A pipe, and a function that closes its reading end."""
    reads, writes = os.pipe()
    return open(writes, "w", encoding="utf-8"), lambda: os.close(reads)


def narrow() -> tuple[TextIO, Callable[[], None]]:
    """A stream whose encoding lacks a letter of the text."""
    return io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict"), lambda: None


@pytest.mark.parametrize("make", [closed, unread, narrow])
def test_a_stream_that_cannot_be_written_is_reported_and_raises_nothing_in_callers(
    make: Callable[[], tuple[TextIO, Callable[[], None]]], capsys: pytest.CaptureFixture[str]
) -> None:
    stream, spoil = make()
    log.configure(form=log.Format.CONSOLE, stream=stream)
    spoil()
    structlog.stdlib.get_logger().info("connecting", where="zürich", password="".join(["hunter", "2"]))
    logging.getLogger("other.library").warning("zürich")
    reported = capsys.readouterr().err
    assert reported.count("--- Logging error ---") == 2
    assert "'event': 'connecting'" in reported
    assert "hunter2" not in reported
    with suppress(OSError):  # closing tries to flush the rest again
        stream.close()


@pytest.mark.parametrize("make", [closed, unread])
def test_a_closed_standard_error_raises_nothing_in_callers(
    make: Callable[[], tuple[TextIO, Callable[[], None]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, spoil = make()
    monkeypatch.setattr("sys.stderr", stream)
    log.configure()
    spoil()
    structlog.stdlib.get_logger().info("started")
    logging.getLogger("other.library").warning("trouble")
    monkeypatch.undo()
    with suppress(OSError):
        stream.close()


@pytest.mark.parametrize("form", [log.Format.JSON, log.Format.CONSOLE])
def test_a_value_that_cannot_be_rendered_loses_only_its_own_line(
    form: log.Format, capsys: pytest.CaptureFixture[str]
) -> None:
    class Shy:
        @override
        def __str__(self) -> str:
            raise RuntimeError("not me")

        __repr__ = __str__

    stream = io.StringIO()
    log.configure(form=form, stream=stream)
    structlog.stdlib.get_logger().info("seen", what=Shy())
    structlog.stdlib.get_logger().info("started")
    assert "seen" not in stream.getvalue()
    assert "started" in stream.getvalue()
    assert "not me" in capsys.readouterr().err
