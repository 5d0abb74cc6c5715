"""Hooks of mkdocs, which makes the web site from docs/. The hooks add pages from outside of docs/, links to these
pages, and the navigation.

GitHub and the site show the same pages, so links and headings follow GitHub's rules. If a link leads to a file that is
no page, only its text remains.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pymdownx.superfences
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

# The pages outside of docs/, with their names on the site.
OUTSIDE = {
    "README.md": "index.md",
    "AGENTS.md": "agents.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^):#\s]+)(?P<anchor>#[^)\s]*)?\)")
_CODE = re.compile(r"(^ *```.*?^ *```)", re.DOTALL | re.MULTILINE)


def slug(heading: str, separator: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set values that YAML cannot express: functions, and the pages that match a pattern."""
    mermaid = {"name": "mermaid", "class": "mermaid", "format": pymdownx.superfences.fence_code_format}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [mermaid]}
    config.mdx_configs["toc"]["slugify"] = slug
    names = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
    config.nav = _expanded(config.nav or [], names)
    return config


def _expanded(entries: Iterable[Any], names: list[str]) -> list[Any]:
    """Return the navigation with each pattern replaced by the pages that it matches."""
    found: list[Any] = []
    for entry in entries:
        match entry:
            case str() if entry.endswith("*"):
                found += [name for name in names if fnmatch(name, entry)]
            case dict():
                ((title, below),) = entry.items()
                found.append({title: _expanded(below, names) if isinstance(below, list) else below})
            case _:
                found.append(entry)
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/."""
    for source, name in OUTSIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Correct the links of a page."""
    parts = _CODE.split(markdown)
    parts[::2] = [_LINK.sub(lambda link: _mended(link, page.file, files), text) for text in parts[::2]]
    return "".join(parts)


def _mended(link: re.Match[str], source: File, files: Files) -> str:
    """Return a link with its target as the site names it. If the target is not on the site, return only the text of the
    link."""
    here = Path(source.abs_src_path or "").parent
    target = (here / link["target"]).resolve()
    if not target.is_relative_to(ROOT) or not target.exists():
        return link[0]  # mkdocs reports it
    name = OUTSIDE.get(target.relative_to(ROOT).as_posix())
    if name is None and target.is_relative_to(DOCS):
        name = target.relative_to(DOCS).as_posix()
    if name is None or files.get_file_from_path(name) is None:
        return link["text"]
    relative = os.path.relpath(name, os.path.dirname(source.src_uri) or ".")
    return f"{link['image']}[{link['text']}]({relative}{link['anchor'] or ''})"
