"""The archive: built from the sources alone, the same on every machine, and small."""

from __future__ import annotations

import ast
import hashlib
import io
import os
import subprocess
import sys
import tokenize
import tomllib
import zipfile
from pathlib import Path

import build_agent
from farrier import agent

ROOT = Path(__file__).parents[2]
# Lines of code, in which a reader of the agent has to trust.
MOST_LINES = 1200


def test_two_builds_are_the_same_whatever_the_time_the_python_and_the_order_of_files(
    archive: Path, python: str, tmp_path: Path
) -> None:
    nvml = tmp_path / "nvml"
    nvml.mkdir()
    with zipfile.ZipFile(archive) as packed:
        (nvml / "pynvml.py").write_bytes(packed.read("pynvml.py"))
    built = tmp_path / "built.pyz"

    subprocess.run(
        [python, str(ROOT / "agent" / "build_agent.py"), str(built)],
        env={"PYTHONPATH": str(nvml), "TZ": "Asia/Tokyo", "PATH": os.environ["PATH"]},
        check=True,
        capture_output=True,
    )

    assert built.read_bytes() == archive.read_bytes()


def test_the_package_has_the_archive_of_its_sources(archive: Path) -> None:
    assert agent.content() == archive.read_bytes(), "the sources of the agent have changed: run `make agent`"
    assert agent.sha256() == hashlib.sha256(archive.read_bytes()).hexdigest()


def test_another_release_of_nvidia_ml_py_is_refused(tmp_path: Path, python: str) -> None:
    (tmp_path / "pynvml.py").write_text("# another release\n")

    done = subprocess.run(
        [python, str(ROOT / "agent" / "build_agent.py"), str(tmp_path / "built.pyz")],
        env={"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]},
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert "expected the SHA-256" in done.stderr
    assert not (tmp_path / "built.pyz").exists()


def test_the_build_and_the_developers_use_the_same_release_of_nvidia_ml_py() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    of_build, of_developers = (
        [each for each in listed if each.startswith("nvidia-ml-py")]
        for listed in (project["build-system"]["requires"], project["project"]["optional-dependencies"]["dev"])
    )
    assert of_build == of_developers
    assert len(of_build) == 1


def test_the_agent_imports_only_the_standard_library_and_nvidia_ml_py() -> None:
    known = {*sys.stdlib_module_names, "farrier_agent", "pynvml"}
    imported = {
        name.partition(".")[0]
        for path in build_agent.SOURCES.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in names(node)
    }

    assert imported <= known


def names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_the_agent_stays_small() -> None:
    lines = sum(code_lines(path.read_text()) for path in build_agent.SOURCES.glob("*.py"))

    assert lines <= MOST_LINES


def code_lines(source: str) -> int:
    """The lines that have code: no blank lines, comments and docstrings."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    used = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in layout
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(used - documented)
