"""The settings that the pages show are read as farrier reads them: as settings, as a site's file, or as tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from farrier import config
from farrier.config import AgentsConfig, site_files, token_file
from farrier.errors import ConfigError
from tests.support import pages
from tests.support.pages import Block

SHOWN = [
    block
    for found in pages.with_blocks().values()
    for block in found
    if block.language == "toml" and not block.is_run_elsewhere
]


def read(text: str, directory: Path) -> None:
    """Read the text as the kind of file that it is. Raises ConfigError."""
    file = directory / "shown.toml"
    file.write_text(text.replace("60f4…", 16 * "60f4"), encoding="utf-8")
    if text.startswith("[ufm]"):
        site_files.load(str(directory), AgentsConfig())
    elif text.startswith("[[tokens]]"):
        token_file.load(str(file))
    else:
        config.load(file, environment={})


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: f"{block.page.stem}-{block.text.splitlines()[0]}")
def test_a_page_shows_settings_that_farrier_reads(block: Block, tmp_path: Path) -> None:
    read(block.text, tmp_path)


@pytest.mark.parametrize("wrong", ["[http]\nprot = 1\n", "[ufm]\nuri = 'https://ufm'\n", "[[tokens]]\nnam = 'ci'\n"])
def test_a_setting_that_farrier_does_not_have_is_found(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read(wrong, tmp_path)
