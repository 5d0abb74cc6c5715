"""The ways in which MAAS parses a value of a client, and the struct that describes a field.

`call` uses these readers with the table in `forms`. MAAS parses with Django's form fields, or with validators of
formencode for single parameters, and the results differ: the flag `0` is true in Django and false in formencode. The
functions are pure. The rules are from Django 4.2.11 and formencode 2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, StrEnum

import msgspec

_WORDS_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_WORDS_FALSE = frozenset({"false", "f", "no", "n", "off", "0", ""})
_REQUIRED = "This field is required."


class Reader(Enum):
    """A way of parsing a parameter. The value names the code that parses it."""

    RAW = "request.POST.get"
    """The text as the client sent it; None if the field is absent."""
    CHAR = "django/forms/fields.py:280 CharField"
    """The text without white space at its beginning and end."""
    CHECKBOX = "django/forms/widgets.py:598 CheckboxInput"
    """False if the value is absent, empty, or `false` in upper or lower case. Any other value is true, even `0` and
    `no`."""
    STRING_BOOL = "formencode/validators.py:2375 StringBool"
    """`0`, `no` and `off` are false; an unknown word is refused."""
    INT = "formencode/validators.py:911 Int"
    INTEGER = "django/forms/fields.py:340 IntegerField"
    CHOICE = "django/forms/fields.py:853 ChoiceField"
    CASELESS_CHOICE = "maasserver/fields.py:371 CaseInsensitiveChoiceField"
    MANY = "QueryDict.getlist"
    """All values of the field."""


_CHECKED_BY_FORMS = frozenset({Reader.INTEGER, Reader.CHOICE, Reader.CASELESS_CHOICE, Reader.CHAR})


class Origin(StrEnum):
    """The dictionary from which a field is read. MAAS reads some fields from `request.data`, which has the fields of
    JSON, too (piston3/utils.py:270); for a form, this is the same as `request.POST`."""

    POST = "request.POST"
    GET = "request.GET"


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of an operation. `source` is the line of MAAS 3.7.3 that declares or reads the field."""

    reader: Reader
    source: str
    origin: Origin = Origin.POST
    choices: tuple[str, ...] = ()
    least: int | None = None
    required: bool = False
    default: bool = False
    """The value of an absent flag."""
    sent_as: str = ""
    """The name of the parameter in the request, if MAAS parses this parameter twice and the table has two fields for
    it."""


class BadParameter(Exception):
    """A validator refused a single parameter. The text is MAAS's response."""


class Data:
    """A dictionary of a request."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = pairs

    def get(self, name: str) -> str | None:
        """Return the last value of this name, as Django does."""
        return next((value for key, value in reversed(self.pairs) if key == name), None)

    def getlist(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]


def text(field: Field, name: str, data: Data) -> str | None:
    value = data.get(name)
    if value is None or field.reader not in (Reader.CHAR, Reader.CASELESS_CHOICE):
        return value
    return value.strip() if field.reader is Reader.CHAR else value.lower()


def flag(field: Field, name: str, data: Data) -> bool:
    """Parse a flag with the reader of its field. Raises `BadParameter`."""
    value = data.get(name)
    if field.reader is Reader.CHECKBOX:
        return (value or "").lower() not in {"", "false"}
    assert field.reader is Reader.STRING_BOOL, f"{name} is no flag: MAAS reads it by {field.reader.value}"
    if value is None:
        return field.default
    word = value.strip().lower()
    if word not in _WORDS_TRUE | _WORDS_FALSE:
        raise BadParameter(f"Invalid {name}: Value should be 'true' or 'false'")
    return word in _WORDS_TRUE


def number(field: Field, name: str, data: Data) -> int | None:
    """Parse a number. For a field of a form, call `problem` first. Raises `BadParameter` for a single parameter."""
    value = data.get(name)
    if value is None or value == "":
        return None
    try:
        return int(value)
    except ValueError:
        raise BadParameter(f"Invalid {name}: Please enter an integer value") from None


def problem(field: Field, name: str, data: Data) -> str | None:
    """Return the form's error for this field. None if the value is valid, or if no form reads the field."""
    if field.reader not in _CHECKED_BY_FORMS:
        return None
    value = text(field, name, data)
    if value is None or value == "":
        return _REQUIRED if field.required else None
    if field.reader is Reader.INTEGER:
        return _no_integer(field, value)
    if field.choices and value not in field.choices:
        shown = ", ".join(f"'{choice}'" for choice in field.choices)
        return f"'{value}' is not a valid {name}.  It should be one of: {shown}."
    return None


def _no_integer(field: Field, value: str) -> str | None:
    try:
        least = int(value)
    except ValueError:
        return "Enter a whole number."
    if field.least is not None and least < field.least:
        return f"Ensure this value is greater than or equal to {field.least}."
    return None
