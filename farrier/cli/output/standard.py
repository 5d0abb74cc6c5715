"""Raises a separate exception if writing to standard output fails, so that a full disk is not reported as an
unreachable database.

If the reader of a pipe has ended, this is not an error: the process ends silently.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import typer
from typing_extensions import override

from farrier.errors import ExitCode

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class UnwrittenError(Exception):
    """Writing to standard output failed. The text contains the reason."""


class _Output(io.FileIO):
    @override
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as failure:
            raise UnwrittenError(failure.strerror or str(failure)) from failure


@contextmanager
def watched() -> Iterator[None]:
    """Run the process. If standard output cannot be written, print this and exit."""
    _replace()
    try:
        try:
            yield
        finally:
            _flush()
    except UnwrittenError as failure:
        _to_nowhere(sys.stdout)
        try:
            typer.echo(f"farrier: cannot write to standard output: {failure}; the output is incomplete", err=True)
        except OSError:  # standard error may lead to the same full disk
            _to_nowhere(sys.stderr)
        raise SystemExit(ExitCode.FAILED) from failure


def _replace() -> None:
    given = sys.stdout
    if isinstance(given, io.TextIOWrapper):  # standard output is None if it is closed
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(given.fileno(), "w", closefd=False)),
            encoding=given.encoding,
            errors=given.errors,
            line_buffering=given.line_buffering,
            write_through=given.write_through,
        )


def _flush() -> None:
    """Flush standard output, because not every command does."""
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.flush()
    except BrokenPipeError:
        _to_nowhere(sys.stdout)
        raise SystemExit(ExitCode.FAILED) from None


def _to_nowhere(stream: TextIO) -> None:
    """Redirect the stream to /dev/null, or else the interpreter would flush it again at its end, and fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
