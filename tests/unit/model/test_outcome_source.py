"""The source of an outcome: the module and the line that made it, not the folder of the sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WAITS = "from farrier.model.loop.outcome import Wait\n\n\ndef made():\n    return Wait(reason='full')\n"


def run_from(root: Path, statement: str) -> str:
    """The output of `statement` in a process that imports packages from `root`."""
    code = f"import sys; sys.path.insert(0, {str(root)!r}); {statement}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("folder", ["work", "farrier", "farrier/farrier", "farrier/src"])
@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("volumes/handler.py", "volumes/handler.py:5"),
        ("volumes/deep/status.py", "volumes/deep/status.py:5"),
        ("volumes/__init__.py", "volumes/__init__.py:5"),
        ("volume.py", "volume.py:5"),
    ],
)
def test_a_source_is_named_by_its_module_regardless_of_the_folder_of_the_sources(
    tmp_path: Path, folder: str, module: str, said: str
) -> None:
    root = tmp_path / folder
    file = root / module
    file.parent.mkdir(parents=True)
    file.write_text(WAITS)
    name = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert run_from(root, f"import {name} as m; print(m.made().source)") == said


def test_a_program_of_one_file_is_named_by_that_file(tmp_path: Path) -> None:
    script = tmp_path / "farrier" / "try_it.py"
    script.parent.mkdir()
    script.write_text(f"{WAITS}\n\nprint(made().source)\n")
    said = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout.strip()
    assert said == "try_it.py:5"
