"""Named SQL statements: one file each under `farrier/io/sql/`, read once.

The modules of this package load them at import, so a misspelt name stops the program at start and not at its first use.
A statement is sent with its comments: its first line, which describes its purpose, shows in pg_stat_activity. Never
assemble SQL from strings: pass values as `$n`, and write identifiers out.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from farrier import errors

DIRECTORY = Path(__file__).parent / "sql"


def names() -> tuple[str, ...]:
    """The names of all statements, as `load` takes them (`loop/load`), sorted."""
    return tuple(sorted(path.relative_to(DIRECTORY).with_suffix("").as_posix() for path in DIRECTORY.rglob("*.sql")))


@cache
def load(name: str) -> str:
    """The text of `sql/<name>.sql`. Raises InternalError if there is no such file."""
    path = DIRECTORY / f"{name}.sql"
    if not path.is_file():
        raise errors.InternalError(f"no SQL statement {name!r}; expected one of: {', '.join(names())}")
    return path.read_text(encoding="utf-8").rstrip()
