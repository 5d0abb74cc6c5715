"""A glob selects the same names as in a shell. A test of a label has the documented meaning, or is refused."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farrier.model.intents import selection
from farrier.model.intents.selection import LabelTest

NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,6}[A-Za-z0-9])?", fullmatch=True)
GLOBS = st.text(alphabet="ab1-._*?[]!", max_size=8) | NAMES


def selected(name: str, text: str) -> bool:
    """Whether the SQL of lists selects the name."""
    found = selection.name_range(text)
    return found.first <= name < found.beyond and re.search(found.pattern, name) is not None


@settings(deadline=None)
@given(NAMES | st.text(alphabet="ab1-._", min_size=1, max_size=6), GLOBS)
def test_a_glob_selects_the_names_that_a_shell_would(name: str, glob: str) -> None:
    assert selected(name, glob) is fnmatchcase(name, glob)


@pytest.mark.parametrize("text", ["", "a b", "é*", "[z-a]", "[", "gpu-[1", "a" * 2000, "\udcff", "\x00*", "a/b", "*$"])
def test_a_text_that_no_name_can_match_selects_none_and_is_no_error(text: str) -> None:
    assert not any(selected(name, text) for name in ("a", "z", "gpu-1", "a-b", "a" * 253))


def test_a_glob_reads_only_the_names_with_its_literal_prefix() -> None:
    found = selection.name_range("gpu-1*")
    names = ["gpu-0", "gpu-09", "gpu-1", "gpu-10", "gpu-1z", "gpu-2", "gpu.1", "h"]
    assert [name for name in names if found.first <= name < found.beyond] == ["gpu-1", "gpu-10", "gpu-1z"]
    one = selection.name_range("gpu-1")
    assert [name for name in names if one.first <= name < one.beyond] == ["gpu-1"]


def test_tests_of_labels_are_parsed_in_every_form() -> None:
    assert selection.label_tests(["rack=r7,!spare", "gpu , row!=a=b,x==", "host.net/x=1"]) == (
        LabelTest("rack", "r7"),
        LabelTest("spare", negated=True),
        LabelTest("gpu"),
        LabelTest("row", "a=b", negated=True),
        LabelTest("x", ""),
        LabelTest("host.net/x", "1"),
    )


@pytest.mark.parametrize("text", ["", "=a", "!", "!a=b", "!a!=b", "a,", ",", "a!", "\x00", "a=\x1b[2J", "\udcff"])
def test_an_invalid_test_of_a_label_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected KEY, !KEY, KEY=VALUE or KEY!=VALUE, got"):
        selection.label_tests([text])
