"""Each command has a manual page with all of its options, which roff formats without a warning."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from farrier import cli
from tools import generate_docs, man_pages


def test_each_command_has_a_page_with_its_subcommands_and_options() -> None:
    pages = man_pages.pages()
    assert pages.keys() == {"farrier.1", *(f"farrier-{name}.1" for name in cli.COMMANDS)}
    for name in generate_docs.commands():
        page = pages[f"farrier-{name.split()[1]}.1"]
        assert name.replace("-", "\\-") in page
    assert "\\-\\-sort\\-by FIELD" in pages["farrier-node.1"]
    assert all(f"farrier\\-{name}" in pages["farrier.1"] for name in cli.COMMANDS)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_roff_formats_each_page_without_a_warning() -> None:
    pages = "".join(man_pages.pages().values())
    done = subprocess.run(
        ["groff", "-man", "-ww", "-b", "-z", "-Tutf8", "-k"], input=pages, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
