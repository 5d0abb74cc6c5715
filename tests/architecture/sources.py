"""The sources as the architecture tests read them: parsed Python, and SQL without comments and strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FARRIER = ROOT / "farrier"
AGENT = ROOT / "agent"
TESTS = ROOT / "tests"
BENCH = ROOT / "bench"
TOOLS = ROOT / "tools"
EXAMPLES = ROOT / "examples"
STATEMENTS = FARRIER / "io" / "sql"
SCHEMA = FARRIER / "io" / "schema"

Function = ast.FunctionDef | ast.AsyncFunctionDef

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r"'(?:[^']|'')*'")


class Module(NamedTuple):
    """One Python file."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The module's path in the repository."""
        return self.path.relative_to(ROOT).as_posix()

    def at(self, node: ast.AST) -> str:
        """The position of a node in the form FILE:LINE, which editors open."""
        return f"{self.name}:{getattr(node, 'lineno', 1)}"


def modules(*places: Path) -> list[Module]:
    """Every Python file below these directories, parsed."""
    return [_module(path) for path in sorted(path for place in places for path in place.rglob("*.py"))]


@cache
def _module(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    return Module(path, text, ast.parse(text, str(path)))


def each(module: Module, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of these kinds in a module."""
    return (node for node in ast.walk(module.tree) if isinstance(node, kinds))


def dotted(node: ast.AST) -> str:
    """`a.b.c` for a name or an attribute of one, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}" if dotted(node.value) else f".{node.attr}"
    return ""


def sql_files() -> list[Path]:
    """Every statement, and every file of the schema."""
    return sorted([*STATEMENTS.rglob("*.sql"), *SCHEMA.rglob("*.sql")])


def uncommented_sql(path: Path) -> str:
    """The SQL of a file without comments."""
    return _COMMENT.sub("", path.read_text(encoding="utf-8"))


def bare_sql(path: Path) -> str:
    """The SQL of a file without comments, and with empty string literals."""
    return _STRING.sub("''", uncommented_sql(path))
