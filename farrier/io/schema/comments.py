"""Comments of tables and columns, read line by line from the files of the baseline.

Module `schema_set` uses this module when a migration has changed the tables. The comment lines directly above CREATE
TABLE belong to the table. The comment behind a column belongs to the column, and so do comments of further lines that
are indented more than a column. A comment that is indented like a column describes the lines below it, and is not
copied to the database. A comment behind ALTER TABLE … ALTER replaces the comment that LIKE copied to the column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TABLE = re.compile(r"CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(farrier\.\w+) \(")
_LIKE = re.compile(r" {4}LIKE (farrier\.\w+) INCLUDING ALL")
_ALTERED = re.compile(r"ALTER TABLE (farrier\.\w+) ALTER (\w+) .*;\s+-- (.*)")
_COLUMN = re.compile(r" {4}([a-z]\w*) ")
_ELSE = re.compile(r"(?: {4})?\S")
_BEHIND = re.compile(r"\s-- (.*)")


def read(source: str) -> Mapping[str, str]:
    """Return the comment of each table (`farrier.nodes`) and column (`farrier.nodes.id`) that this text creates."""
    texts: dict[str, list[str]] = {}
    above: list[str] = []
    table = column = ""
    for line in source.splitlines():
        if begun := _TABLE.match(line):
            table, column = begun[1], ""
            texts[table] = above
        elif altered := _ALTERED.match(line):
            texts[f"{altered[1]}.{altered[2]}"] = [altered[3]]
        elif line.startswith(")"):
            table = column = ""
        elif like := _LIKE.match(line):
            inherited = {name: text for name, text in texts.items() if name.startswith(f"{like[1]}.")}
            texts |= {name.replace(like[1], table, 1): text for name, text in inherited.items()}
        elif table and (named := _COLUMN.match(line)):
            column = f"{table}.{named[1]}"
            texts[column] = []
        elif _ELSE.match(line):
            column = ""
        if column and (behind := _BEHIND.search(line)):
            texts[column].append(behind[1])
        above = [*above, line[2:].strip()] if line.startswith("--") else []
    return {name: " ".join(text) for name, text in texts.items()}
