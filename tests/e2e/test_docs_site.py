"""The documentation as a site: built without a warning, with all pages, the five ways in, and a search of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tools import generate_docs, site

ROOT = generate_docs.ROOT
SHELVES = ["Try", "Operate", "Integrate", "Understand", "Reference"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs-site` builds it."""
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.mark.full
def test_every_page_is_on_the_site_and_the_search_finds_it(built: Path) -> None:
    index = msgspec.json.decode((built / "search" / "search_index.json").read_bytes())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    names = {re.sub(r"(README|index)?\.md$", "", name) for name in (*pages, *site.OUTSIDE.values())}
    assert {name if not name or name.endswith("/") else f"{name}/" for name in names} == found


@pytest.mark.full
def test_the_home_page_is_the_readme_and_leads_to_the_five_shelves(built: Path) -> None:
    home = (built / "index.html").read_text(encoding="utf-8")
    tabs = re.findall(r'class="md-tabs__link">\s*(.*?)\s*</a>', home, re.DOTALL)
    assert [tab for tab in tabs if tab in SHELVES] == SHELVES
    for picture in re.findall(r'<img [^>]*src="([^":]*)"', home):
        assert (built / picture).is_file(), picture
    assert "tests/integration/test_documentation.py" not in home  # a file that is no page is a text, not a link


@pytest.mark.full
def test_a_diagram_is_rendered_as_a_diagram(built: Path) -> None:
    page = (built / "state-model" / "index.html").read_text(encoding="utf-8")
    assert '<pre class="mermaid"><code>stateDiagram-v2' in page
