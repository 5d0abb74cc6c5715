"""Named SQL statements. Each statement is one file under `farrier/io/sql/`; each file is read only one time.

The modules of this package load their statements at import, so a misspelt name stops the program at its start, not at
the first use. A statement is sent with its comments, so its first line, which describes its purpose, is visible in
pg_stat_activity. Never assemble SQL from strings: pass values as `$n`, and write every identifier literally into the
file.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from farrier import errors

DIRECTORY = Path(__file__).parent / "sql"


def names() -> tuple[str, ...]:
    """Return the names of all statements, in the form that `load` takes (`loop/load`), sorted."""
    return tuple(sorted(path.relative_to(DIRECTORY).with_suffix("").as_posix() for path in DIRECTORY.rglob("*.sql")))


@cache
def load(name: str) -> str:
    """Return the text of `sql/<name>.sql`. Raises InternalError if there is no such file."""
    path = DIRECTORY / f"{name}.sql"
    if not path.is_file():
        raise errors.InternalError(f"no SQL statement {name!r}; expected one of: {', '.join(names())}")
    return path.read_text(encoding="utf-8").rstrip()
