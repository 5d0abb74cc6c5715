"""Structured logs. A line has a constant event name, and keys for all other data.

`cli` calls `configure` once, before anything logs; modules call `structlog.stdlib.get_logger(__name__)`. The loop binds
a step's context (kind, id, name) with structlog's contextvars. Lines go to standard error, as JSON under systemd or
without a terminal, and in colours on a terminal. Before a line is rendered, passwords in URLs and all values under keys
that name a secret are masked, at any depth. Repeated warnings and errors are counted instead of written, and
`write_repeats` writes the counts. Lines of libraries that use `logging` have the same form and limits. Each line is one
write, so lines of different threads do not mix. The caller never gets an error about writing a line.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger
from typing_extensions import override

_log = structlog.stdlib.get_logger(__name__)

MASK = "***"

_SECRET_KEY = re.compile(
    r"(?i)passw|secret|token|authorization|cookie|api_?key|agent_?key|private_?key|credential_?value"
)
# Values of these types are never masked, because numbers under the key of a secret are fencing tokens or counts of
# tokens.
_HARMLESS = (bool, int, float, type(None))
_NUMBERS = frozenset(_HARMLESS)
_URL_PASSWORD = re.compile(r"(?P<before>\b[a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+(?=@)", re.IGNORECASE)


# The keys that define the subject of a line. A line with the same event and the same subject is a repetition.
_ABOUT = (
    *("kind", "id", "node", "site", "machine", "task", "step", "url", "bmc", "path"),
    *("service", "operation", "result", "label", "failure", "verdict", "controller", "timeline"),
)
# A line with one of these keys is about one resource. The errors of a resource may differ at each attempt, so they are
# not part of its subject. Any other line is about the process: its error is part of the subject, so that a new cause is
# written at once.
_RESOURCE = ("id", "node", "machine", "task")
_CAUSE = ("error", "reason")
# In seconds. With this interval, a lasting fault of a node is logged twelve times an hour.
_AGAIN_AFTER = 300.0
# The length of a window in seconds, and the largest number of lines of one event in a window, whatever their subjects
# are. When a region fails for thousands of nodes, the first hundred lines are enough. From 10,000 lines in 30 s on,
# journald drops lines at random.
_BURST_OVER = 60.0
_BURST = 100
# The largest number of remembered subjects, at about 300 bytes each. If there are more, a subject may be logged too
# often.
_MOST_REMEMBERED = 10_000
# The largest number of events that are counted separately. farrier has fewer than a hundred. All lines of a logger of a
# library count as one event; libraries use a dozen loggers.
_MOST_EVENTS = 1_000
_OTHER = "other"
_LIMITED = (logging.WARNING, logging.ERROR)
# The lines of these methods of structlog are not limited. If structlog adds a method later, its lines are limited.
_UNLIMITED = frozenset({"debug", "info", "critical", "fatal"})
# Types that msgspec formats exactly as json does. Floats, bytes, times, sets and enums differ.
_PLAIN = frozenset({str, int, bool, type(None)})


class Format(StrEnum):
    """The format of a line."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class Level(StrEnum):
    """The lowest level that is logged. `error` is only for events that require an operator."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure(
    level: Level = Level.INFO,
    form: Format = Format.AUTO,
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Set up structlog and logging. May be called again with other settings; repetitions are then counted from zero.
    `clock` measures the time between repetitions. A logger that was made with `bind` earlier keeps its settings; module
    loggers get the new ones.
    """
    _repeats.begin(clock)
    out = sys.stderr if stream is None else stream
    context = structlog.contextvars.merge_contextvars
    shared: list[Processor] = [structlog.stdlib.add_log_level, _stamp, _traceback, redact]
    render = _renderer(form, out)
    handler = _Handler(out, render)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[context, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    handler.addFilter(_foreign_repeats)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # A warning of Python, for example of a coroutine that was never awaited, is a line of the log as well.
    logging.captureWarnings(capture=True)
    # asyncpg's pool logs a traceback for each failed attempt to connect. The code that requests a connection logs a
    # separate event.
    logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)
    # These libraries log each request at `info`. farrier counts requests in metrics instead.
    for chatty in ("httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    own = _Own(handler, level)
    structlog.configure(
        # `limit` is first, so that the traceback of a dropped line is not formatted.
        processors=[context, limit, *shared],
        logger_factory=lambda *_names: own,
        # A call below the level does nothing.
        wrapper_class=type("BoundLogger", (structlog.make_filtering_bound_logger(level), _Ours), {}),
        cache_logger_on_first_use=False,
    )


class _Line(logging.LogRecord):
    """A log record of farrier itself, without caller and thread, which are costly to determine."""

    msg: Any

    def __init__(self, event: EventDict) -> None:
        self.msg = event
        self.args = ()


class _Handler(logging.StreamHandler[TextIO]):
    """Writes lines one at a time. A failure of `emit` is reported on standard error and does not stop the caller."""

    def __init__(self, out: TextIO, render: Processor) -> None:
        super().__init__(out)
        self._render = render

    def write(self, event: EventDict) -> None:
        """Write an event that farrier itself logged. The event is already filtered."""
        self.acquire()
        try:
            self.emit(_Line(event))
        finally:
            self.release()

    @override
    def format(self, record: logging.LogRecord) -> str:
        if isinstance(record, _Line):
            return str(self._render(None, "", record.msg))
        return super().format(record)

    @override
    def flush(self) -> None:
        self.stream.flush()  # the caller holds the lock, and every stream here can be flushed

    @override
    def handleError(self, record: logging.LogRecord) -> None:
        # `super` ignores the OSError of a broken standard error, but not the ValueError of a closed one.
        with suppress(ValueError):
            super().handleError(record)


class _Own(logging.Logger):
    """The logger for farrier's own lines."""

    def __init__(self, handler: _Handler, level: Level) -> None:
        super().__init__("farrier", level.upper())
        self.addHandler(handler)
        self.write = handler.write


class _Ours(structlog.stdlib.BoundLogger):
    """The logger class that `structlog.stdlib.get_logger` returns. The processors build the event. The handler formats
    the event, so that errors of formatting do not reach the caller. The called method has already formatted
    `event_args`."""

    _logger: _Own

    @override
    def _proxy_to_logger(self, method_name: str, event: str | None = None, *event_args: str, **event_kw: Any) -> None:
        said: Any = {**self._context, **event_kw, "event": event}
        try:
            for process in self._processors:
                said = process(self._logger, method_name, said)
        except structlog.DropEvent:
            return
        self._logger.write(said)


class Suppressed(NamedTuple):
    """The number of lines of an event that were not written."""

    event: str
    lines: int


class _Burst:
    """The numbers of lines of one event over all subjects: lines written in the current window, and suppressed
    lines."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.lines = 0
        self.suppressed = 0


class Repeats:
    """Limits repeated lines. For one event about one subject, it admits the first line, and then one line every five
    minutes. For one event, it admits at most a hundred lines a minute. It counts all other lines. Its memory is
    limited."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.begin(clock)

    def begin(self, clock: Callable[[], float]) -> None:
        """Forget all lines and counts, and use this clock."""
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Forget all lines and counts."""
        # For each event and subject: the time of the last written line, and the number of later lines that were not
        # written. The oldest time is first.
        self._seen: OrderedDict[tuple[str, Hashable], tuple[float, int]] = OrderedDict()
        self._bursts: dict[str, _Burst] = {}
        self._reported_at = self._clock()

    def admit(self, event: str, about: Hashable) -> int | None:
        """Return None if this line must not be written. Otherwise return the number of equal lines that were suppressed
        since the last written line."""
        now = self._clock()
        if event not in self._bursts and len(self._bursts) >= _MOST_EVENTS:
            event = _OTHER
        burst = self._bursts.setdefault(event, _Burst(now))
        if now - burst.since >= _BURST_OVER:
            burst.since, burst.lines = now, 0
        written_at, skipped = self._seen.get((event, about), (None, 0))
        again = written_at is not None and now - written_at < _AGAIN_AFTER
        if again and written_at is not None:
            self._seen[event, about] = (written_at, skipped + 1)
        if again or burst.lines >= _BURST:
            burst.suppressed += 1
            return None
        burst.lines += 1
        self._seen.pop((event, about), None)
        self._seen[event, about] = (now, 0)
        self._forget(now)
        return skipped

    def suppressed(self, *, at_once: bool = False) -> list[Suppressed]:
        """Return the numbers of lines that were not written since the last report. Without `at_once`, return nothing
        until five minutes have passed since that report."""
        now = self._clock()
        if now - self._reported_at < _AGAIN_AFTER and not at_once:
            return []
        self._reported_at = now
        found = [Suppressed(event, burst.suppressed) for event, burst in self._bursts.items() if burst.suppressed]
        for burst in self._bursts.values():
            burst.suppressed = 0
        return found

    def _forget(self, now: float) -> None:
        """Forget each subject, with its counts, if no line about it was written in the last ten minutes. If there are
        too many subjects, also forget the oldest."""
        while self._seen:
            oldest_at, _ = next(iter(self._seen.values()))
            if now - oldest_at < 2 * _AGAIN_AFTER and len(self._seen) <= _MOST_REMEMBERED:
                return
            self._seen.popitem(last=False)


_repeats = Repeats()


def limit(_logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Drop a repeated warning or error (a structlog processor). If a line is written, its key `repeated` has the number
    of dropped lines."""
    if method in _UNLIMITED:
        return event
    failure = event.get("exc_info")
    subject = _ABOUT if any(key in event for key in _RESOURCE) else _ABOUT + _CAUSE
    about = (*(event.get(key) for key in subject), type(failure).__name__ if failure else "")
    skipped = _repeats.admit(str(event.get("event")), tuple(map(str, about)))
    if skipped is None:
        raise structlog.DropEvent
    return {**event, "repeated": skipped} if skipped else event


def write_repeats(*, at_once: bool = False) -> None:
    """Log how many lines of each event were suppressed since the last report, at most every five minutes, or
    immediately with `at_once`. The daemon calls this regularly, and at its end."""
    for event, lines in _repeats.suppressed(at_once=at_once):
        _log.info("log.repeats_not_written", of=event, lines=lines)


def forget_repeats() -> None:
    """Log the numbers of suppressed lines. Then forget all earlier lines, so that the next line of each event is
    written. The daemon calls this on SIGHUP, so that each SIGHUP has a visible answer."""
    write_repeats(at_once=True)
    _repeats.forget()


def _foreign_repeats(record: logging.LogRecord) -> bool:
    """Limit lines of other libraries in the same way. If the message of a line is not a text, the line is not
    limited."""
    if record.levelno not in _LIMITED or not isinstance(record.msg, str):
        return True
    return _repeats.admit(record.name, record.msg) is not None


_unix_time = structlog.processors.TimeStamper(fmt=None)


def _stamp(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Add the time of the event, in UTC with microseconds (a structlog processor)."""
    second, micros = divmod(int(_unix_time(logger, method, event)["timestamp"] * 1e6), 1_000_000)
    event["timestamp"] = f"{_iso(second)}.{micros:06}Z"
    return event


@lru_cache(maxsize=1)  # many lines are in the same second
def _iso(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"


def _traceback(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Format the exception of a line, if it has one (a structlog processor)."""
    return structlog.processors.format_exc_info(logger, method, event) if "exc_info" in event else event


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Mask the secrets of an event (a structlog processor)."""
    if _any_secret(tuple(event)):
        return {key: _masked(key, value) for key, value in event.items()}
    for value in event.values():
        if "://" in value if isinstance(value, str) else type(value) not in _NUMBERS:
            return {key: _masked(key, value) for key, value in event.items()}
    return event  # nearly all events have only short texts and numbers


def mask_urls(text: str) -> str:
    """Return the text with the passwords of its URLs masked."""
    return text if "://" not in text else _URL_PASSWORD.sub(rf"\g<before>{MASK}", text)


@lru_cache(maxsize=1024)  # nearly all keys are constants of the program
def _is_secret(key: str) -> bool:
    return _SECRET_KEY.search(key) is not None


@lru_cache(maxsize=1024)  # an event has the same keys each time
def _any_secret(keys: tuple[str, ...]) -> bool:
    return any(map(_is_secret, keys))


def _masked(key: object, value: object) -> object:
    if isinstance(key, str) and not isinstance(value, _HARMLESS) and _is_secret(key):
        return MASK
    if isinstance(value, str):
        return mask_urls(value)
    if isinstance(value, _HARMLESS):
        return value
    if isinstance(value, Mapping):
        return {inner: _masked(inner, held) for inner, held in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_masked(None, held) for held in value]
    return value


def _renderer(form: Format, out: TextIO) -> Processor:
    watched = out.isatty() and "JOURNAL_STREAM" not in os.environ
    if form is Format.CONSOLE or (form is Format.AUTO and watched):
        # Pretty tracebacks show local variables, which may contain secrets.
        plain = structlog.dev.plain_traceback
        console = structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=plain)
        return lambda logger, method, event: console(logger, method, {**event})  # a copy, as the call removes keys
    return _as_json


_encode = msgspec.json.Encoder().encode
_any_json = structlog.processors.JSONRenderer(default=str)


def _as_json(logger: WrappedLogger, method: str, event: EventDict) -> str | bytes:
    """Format an event as `json` does, with `str` for types that json does not support. msgspec formats most lines,
    because it needs a fifth of the time."""
    kinds = set(map(type, event.values()))
    if kinds <= _PLAIN or all(kind in _PLAIN or issubclass(kind, StrEnum) for kind in kinds):
        try:
            line = msgspec.json.format(_encode(event), indent=0)
        except UnicodeEncodeError:  # a text with half a surrogate pair
            return _any_json(logger, method, event)
        if line.isascii() and b"\x7f" not in line:  # json escapes all other characters, for a stream of any encoding
            return line.decode()
    return _any_json(logger, method, event)
