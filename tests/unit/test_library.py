"""The public library is what its page says, and changes only where this test is changed with it."""

from __future__ import annotations

import inspect
import re
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from farrier import library

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "integrate" / "own-kind.md").read_text(encoding="utf-8")

# Stable within a major version: names may be added; removing or renaming a name breaks other packages.
NAMES = re.findall(
    r"\w+",
    """
    Answer ConfigError Credential CredentialError CredentialStore DatabaseUnreachable Decided Decision Deleted
    DoNothing EndsBy Enqueuer Extension FarrierError Handler HandlerError Hold KindAction KindEdge KindLayer
    KindMetric KindSpec KindState NoParams Outcome Params Pending RefusedByModel Resource Sample ServiceContext
    ServiceError StateHandler Step Transition Update Wait accept open_enqueuer params_of reject require_lease
    """,
)
ALIASES = {"Decided", "Decision", "Outcome"}  # aliases of types, which cannot have docstrings


def test_the_exported_names_are_exactly_these() -> None:
    assert sorted(library.__all__) == NAMES
    assert all(hasattr(library, name) for name in NAMES)


def test_the_module_has_no_other_public_names_except_its_imports() -> None:
    others = {name for name in vars(library) if not name.startswith("_")} - set(NAMES)
    assert others == {"annotations", "AsyncIterator", "asynccontextmanager", "timedelta", "open_pool"}


def test_the_page_lists_each_name_once_and_no_other() -> None:
    listed = re.findall(r"^\| `(\w+)` \| .+\.", PAGE.partition("## The library")[2], re.MULTILINE)
    assert sorted(listed) == NAMES


@pytest.mark.parametrize("name", sorted(set(NAMES) - ALIASES))
def test_every_exported_name_has_a_docstring(name: str) -> None:
    documented: Any = getattr(library, name)
    text = vars(documented).get("__doc__") if inspect.isclass(documented) else documented.__doc__
    assert text
    assert not text.startswith("Abstract base class")


# The parameters that other packages pass: a parameter with a default may be added, and no parameter may be removed.
PARAMETERS = {
    "Extension": "columns handler load section services snapshot spec sql writer",
    "KindAction": "accepted_in description instead interrupts params",
    "KindEdge": "owner source target trigger",
    "KindLayer": "edges initial inside key label name relation states terminal",
    "KindSpec": (
        "actions by_model create edges initial key layer layers metrics name relation states steady terminal what"
    ),
    "KindMetric": "buckets help labels name type",
    "Sample": "labels metric value",
    "KindState": "limit unless why_none",
    "Step": "act deadline if_failed if_interrupted name observes reads_only",
    "Transition": "cause reason samples source to writes",
    "Update": "confirms quiet reason requeue_after samples source to writes",
    "Wait": "ends_by error reason requeue_after rests samples source writes",
    "DoNothing": "requeue_after samples source writes",
    "Deleted": "samples source writes",
    "Answer": "accepted reason request",
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_the_exported_names_are_exactly_these(name: str) -> None:
    assert " ".join(sorted(inspect.signature(getattr(library, name)).parameters)) == PARAMETERS[name]


class Down:
    """A disk array that does not respond."""

    async def put(self, name: str) -> None:
        assert name
        raise OSError("connection refused")


async def test_the_error_of_a_service_is_raised_as_the_tutorial_shows() -> None:
    (example,) = re.findall(r"<!-- python: failure -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    (stored,) = re.findall(r"is stored as `(.*?)`", PAGE)
    names: dict[str, Any] = {}
    exec(example, names)
    with pytest.raises(library.ServiceError, match=f"^{stored}$"):
        await names["put"](Down(), SimpleNamespace(name="scratch-1"))


def test_the_wheel_contains_the_marker_of_types() -> None:
    """The wheel contains every file of the package that git does not ignore."""
    marker = ROOT / "farrier" / "py.typed"
    assert marker.is_file()
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    assert wheel["packages"] == ["farrier"]
    assert not wheel.keys() & {"exclude", "include", "only-include"}
    ((manual, place),) = wheel["shared-data"].items()
    assert (ROOT / manual / "farrier-node.1").is_file() and place == "share/man/man1"
    assert subprocess.run(["git", "check-ignore", "-q", str(marker)], cwd=ROOT, check=False).returncode != 0
