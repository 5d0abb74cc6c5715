"""The error tree: labels are a contract with dashboards, and texts say what to do."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from datetime import timedelta

import pytest

from farrier import errors

# The values of the metric label `error`. A renamed value breaks alerts of operators: only add values.
LABELS = {
    "farrier",
    "config",
    "database_unreachable",
    "schema",
    "schema_missing",
    "schema_too_new",
    "schema_unrecorded",
    "schema_edited",
    "schema_changed",
    "refused_by_model",
    "malformed_request",
    "handler",
    "held_after_restore",
    "undecodable_state",
    "illegal_edge",
    "locked",
    "timeout",
    "garbage",
    "lease_lost",
    "service",
    "credential",
    "internal",
}


def family(root: type[errors.FarrierError]) -> Iterator[type[errors.FarrierError]]:
    yield root
    for child in root.__subclasses__():
        yield from family(child)


TREE = [error for error in family(errors.FarrierError) if error.__module__ == errors.__name__]


def test_labels_are_unique_and_equal_those_that_dashboards_use() -> None:
    labels = [error.label for error in TREE]
    assert len(labels) == len(set(labels))
    assert set(labels) == LABELS


@pytest.mark.parametrize("error", TREE, ids=lambda error: error.__name__)
def test_each_class_has_its_label_and_a_docstring_and_is_in_the_header(
    error: type[errors.FarrierError],
) -> None:
    assert "label" in vars(error)
    assert isinstance(error.fate, errors.Fate)
    assert inspect.getdoc(error)
    assert re.search(rf"\b{error.__name__}\b", errors.__doc__ or "")


def test_exit_codes_are_the_documented_numbers() -> None:
    assert [(code.name, code.value) for code in errors.ExitCode] == [
        ("OK", 0),
        ("FAILED", 1),
        ("USAGE", 2),
        ("REFUSED", 3),
        ("DATABASE_UNREACHABLE", 4),
        ("SCHEMA_TOO_NEW", 5),
    ]


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (errors.SchemaMissing(found=0, needed=3), ["no farrier schema", "requires 3", "farrier db migrate"]),
        (errors.SchemaMissing(found=2, needed=3), ["version 2", "requires 3", "farrier db migrate"]),
        (errors.SchemaMissing(found=3, needed=3), ["another version of farrier", "farrier db migrate"]),
        (
            errors.SchemaTooNew(found=4, known=3, release="2.0"),
            ["version 4", "farrier 2.0", "supports at most 3", "upgrade"],
        ),
        (errors.SchemaChanged(version=2, name="nodes"), ["version 2", "(nodes)", "add a migration"]),
        (errors.SchemaUnrecorded(), ["no record", "DROP SCHEMA", "farrier db migrate"]),
        (errors.SchemaUnrecorded(directory="/var/lib/farrier"), ["no record", "remove the directory /var/lib/farrier"]),
        (errors.SchemaEdited(edited=["function now"]), ["function now", "farrier db migrate"]),
        (errors.HandlerTimeout("install", timedelta(seconds=180)), ["step install", "180 s"]),
        (errors.CredentialError("file:/run/x", "does not exist"), ["file:/run/x", "does not exist"]),
        (
            errors.DatabaseUnreachable("postgresql://db/farrier", "refused"),
            ["postgresql://db/farrier", "refused"],
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_text_says_what_was_expected_what_came_and_what_to_do(error: errors.FarrierError, parts: list[str]) -> None:
    for part in parts:
        assert part in str(error)
