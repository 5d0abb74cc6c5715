"""Pictures the packages for docs/architecture.md: their imports as a diagram, and their folders as a table."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tools.markdown import table

ROOT = Path(__file__).parents[1]
FARRIER = ROOT / "farrier"

# The picture omits modules that most packages import, and those that only start another one or belong to its process.
LEFT_OUT = frozenset(
    {
        "__main__",
        "agent",
        "asgi",
        "child",
        "children",
        "clock",
        "errors",
        "log",
        "memory",
        "process",
        "signals",
        "systemd",
    }
)


def blocks() -> Mapping[str, str]:
    """Return the text of each marker, by name."""
    return {"packages": _picture(), "folders": _folders()}


def _picture() -> str:
    """Return a diagram with an arrow from each package to each package that it imports, but no arrow that a detour
    replaces."""
    edges = imports()
    lines = [
        f"    {package} --> {other}\n"
        for package in _order()
        for other in _order()
        if other in edges.get(package, ()) and not _has_detour(edges, package, other)
    ]
    return f"```mermaid\nflowchart TD\n{''.join(lines)}```\n"


def _order() -> list[str]:
    """Return the packages of the import contract from the top to the bottom."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [name.strip(" ()") for layer in layers for name in layer.split("|")]


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Return the packages of the picture that each package of the picture imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(FARRIER.rglob("*.py")):
        package = path.relative_to(FARRIER).parts[0].removesuffix(".py")
        found.setdefault(package, set()).update(_imported(ast.parse(path.read_text(encoding="utf-8"))))
    shown = found.keys() - LEFT_OUT - {"__init__"}
    return {package: frozenset(found[package] & shown - {package}) for package in shown}


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield the package of each import of farrier."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="farrier", names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module)) if module.startswith("farrier."):
                yield module.split(".")[1]
            case ast.Import(names=names):
                yield from (name.name.split(".")[1] for name in names if name.name.startswith("farrier."))
            case _:
                pass


def _has_detour(edges: Mapping[str, frozenset[str]], package: str, other: str) -> bool:
    """Return whether another path leads from the package to the other one."""
    return any(other in reached(edges, step) for step in edges[package] - {other})


def reached(edges: Mapping[str, frozenset[str]], package: str) -> frozenset[str]:
    """Return the packages to which arrows lead from a package, in any number of steps."""
    return edges.get(package, frozenset()).union(*(reached(edges, step) for step in edges.get(package, ())))


def _folders() -> str:
    """Return each folder with Python modules, and the first sentence of its docstring."""
    rows = [
        (f"`{path.parent.relative_to(FARRIER).as_posix()}`", sentence(path))
        for path in sorted(FARRIER.rglob("__init__.py"), key=lambda path: path.parent.parts)
        if path.parent != FARRIER
    ]
    return table(("folder", "what enters and what leaves it"), rows)


def sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split())
    begins, ends, _ = f"{text} ".partition(". ")
    return begins + ends.strip()
