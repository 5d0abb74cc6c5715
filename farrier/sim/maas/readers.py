"""The ways in which MAAS parses a value of a client, and the struct that describes a field.

`call` uses these readers with the table in `forms`. MAAS parses with Django's form fields, or with validators of
formencode for single parameters, and the results differ: the flag `0` is true in Django and false in formencode. The
functions are pure. The rules are from Django 4.2.11 and formencode 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum
from typing import assert_never

import msgspec

_WORDS_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_WORDS_FALSE = frozenset({"false", "f", "no", "n", "off", "0", ""})
_REQUIRED = "This field is required."


class Reader(Enum):
    """A way of parsing a parameter. The value names the code that parses it."""

    RAW = "request.POST.get"
    """The text as it came; None when absent."""
    CHAR = "django/forms/fields.py:280 CharField"
    """Without white space at its ends."""
    CHECKBOX = "django/forms/widgets.py:598 CheckboxInput"
    """An absent or empty value, and `false` in upper or lower case, are false; all else is true, also `0` and `no`."""
    NULL_BOOLEAN = "django/forms/widgets.py:814 NullBooleanSelect"
    """Unknown for all but a few words; `1` is unknown, too."""
    STRING_BOOL = "formencode/validators.py:2375 StringBool"
    """`0`, `no` and `off` are false; an unknown word is refused."""
    TRUTHY = "formencode/validators.py:852 Bool"
    """Every text that is not empty is true, `false` included."""
    EXACTLY_TRUE = "maasserver/forms/__init__.py:312"
    """Only the text `true`."""
    INT = "formencode/validators.py:911 Int"
    INTEGER = "django/forms/fields.py:340 IntegerField"
    CHOICE = "django/forms/fields.py:853 ChoiceField"
    CASELESS_CHOICE = "maasserver/fields.py:371 CaseInsensitiveChoiceField"
    MANY = "QueryDict.getlist"
    """All values of that name."""


_CHECKED_BY_FORMS = frozenset({Reader.INTEGER, Reader.CHOICE, Reader.CASELESS_CHOICE, Reader.CHAR})


class Origin(StrEnum):
    """The dictionary from which MAAS reads a field. For a JSON body, the fields are in `data`, and `POST` is empty
    (piston3/utils.py:270)."""

    POST = "request.POST"
    DATA = "request.data"
    GET = "request.GET"


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of an operation. `source` is the line of MAAS 3.7.3 that declares or reads the field."""

    reader: Reader
    source: str
    origin: Origin = Origin.DATA
    choices: tuple[str, ...] = ()
    least: int | None = None
    required: bool = False
    default: bool = False
    """The value of an absent flag."""
    sent_as: str = ""
    """The name that clients send, if MAAS reads the field in two ways."""


class BadParameter(Exception):
    """A validator refused a single parameter. The text is MAAS's response."""


class Data:
    """A dictionary of a request. Values of a form are texts; values of a JSON body have JSON's types."""

    def __init__(self, pairs: Sequence[tuple[str, object]]) -> None:
        self.pairs = pairs

    @classmethod
    def of_json(cls, body: Mapping[str, object]) -> Data:
        """Read a JSON body, in which each member of a list counts as a value (maasserver/api/utils.py:listify)."""
        pairs = [(name, one) for name, value in body.items() for one in (value if isinstance(value, list) else [value])]
        return cls(pairs)

    def get(self, name: str) -> object | None:
        """Return the last value of this name, as Django does."""
        return next((value for key, value in reversed(self.pairs) if key == name), None)

    def getlist(self, name: str) -> list[str]:
        return [str(value) for key, value in self.pairs if key == name and value is not None]


def text(field: Field, name: str, data: Data) -> str | None:
    value = data.get(name)
    if value is None:
        return None
    match field.reader:
        case Reader.CASELESS_CHOICE:
            return str(value).lower()
        case Reader.CHAR:
            return str(value).strip()
        case (
            Reader.RAW
            | Reader.CHECKBOX
            | Reader.NULL_BOOLEAN
            | Reader.STRING_BOOL
            | Reader.TRUTHY
            | Reader.EXACTLY_TRUE
            | Reader.INT
            | Reader.INTEGER
            | Reader.CHOICE
            | Reader.MANY
        ):
            return str(value)
        case _ as never:
            assert_never(never)


def flag(field: Field, name: str, data: Data) -> bool | None:
    """Parse a flag by the field's reader. Raises `BadParameter`."""
    value = data.get(name)
    match field.reader:
        case Reader.CHECKBOX:
            return value.lower() not in {"", "false"} if isinstance(value, str) else bool(value)
        case Reader.EXACTLY_TRUE:
            return value == "true"
        case Reader.NULL_BOOLEAN:
            return {"True": True, "true": True, "2": True, "False": False, "false": False, "3": False}.get(str(value))
        case Reader.STRING_BOOL:
            return _string_bool(field, name, value)
        case Reader.TRUTHY:
            return field.default if value is None else bool(value)
        case (
            Reader.RAW
            | Reader.CHAR
            | Reader.INT
            | Reader.INTEGER
            | Reader.CHOICE
            | Reader.CASELESS_CHOICE
            | Reader.MANY
        ):
            raise AssertionError(f"{name} is no flag: MAAS reads it by {field.reader.value}")
        case _ as never:
            assert_never(never)


def _string_bool(field: Field, name: str, value: object) -> bool:
    if value is None:
        return field.default
    if not isinstance(value, str):
        return bool(value)
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
        return int(str(value))
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
