"""The parameters of each action. Each set of parameters is one struct.

`farrier.model.intents.actions.decode` decodes them from an intent's JSON, after the database's INSERT trigger has
checked the same rules from `describe`. Unknown fields, nulls and blank texts are refused, because other programs send
intents, and a typing error must not become a default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias, cast

import msgspec

from farrier.model.credential import Scheme
from farrier.model.node import details
from farrier.model.node.conditions import DEFAULT_KEY
from farrier.model.node.details import CONTROL, FAULT
from farrier.model.node.layers import DecommissionMode, OnboardingMode

REASON_MAX = 500
"""Largest number of characters of a reason. Lists and alerts show a reason in one line."""
BRAKE_LIFT_MAX = timedelta(hours=24)
"""The longest time for which an operator can lift the brake of a site. If the operator forgets to end this, the brake
works again after at most a day."""
KEY_MAX = 64
"""Largest number of characters of the key of a hold. Lists show keys in one line."""
NAME_MAX = 400
"""Largest number of characters of the name of a condition: its source, its ID and its target."""
REFERENCE_MAX = 500
"""Largest number of characters of a BMC address or a credential reference. The longest references are Vault paths."""

# Scheme and host contain no character that would end them. Brackets contain an IP address. A text with a scheme must
# not match as a host with the name of the scheme.
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*://"
_HOST = rf"(?:\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?\](?::[0-9]*)?|[^\s/?#@\[\]{CONTROL}]+)"

# All these patterns mean the same in PostgreSQL. A reason requires a character that is not blank; the others allow no
# blanks.
Reason: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=REASON_MAX,
        pattern=r"\S",
        description="Why. Lists and the history show this reason.",
    ),
]
HoldKey: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=KEY_MAX,
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z",
        extra={FAULT: "must begin with a letter or digit, and have only letters, digits and the characters . _ -"},
    ),
]
ConditionName: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=NAME_MAX,
        pattern=rf"\A[^{CONTROL}]+\Z",
        extra={FAULT: "must be the key of a hold, or the name of another cause such as cleaning/not_scrubbed"},
    ),
]
Address: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=REFERENCE_MAX,
        pattern=rf"\A(?:[Hh][Tt][Tt][Pp][Ss]://|(?!{_SCHEME})){_HOST}(?:[/?#][^\s{CONTROL}]*)?\Z",
        extra={
            FAULT: "must be host[:port] or https://host[:port][/path], without blanks, control characters or "
            "user name, and with brackets only around an IPv6 address"
        },
    ),
]
# If a client passes a secret instead of a reference, farrier must neither store it nor repeat it in the error.
Reference: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=REFERENCE_MAX,
        pattern=rf"\A(?:{'|'.join(Scheme)}):[^\s{CONTROL}]+\Z",
        extra={FAULT: "must be a reference (file:, env:, systemd: or vault:) without blanks, not the secret itself"},
    ),
]

# Escapes with different meanings: an edge of a word in Python's patterns, but a backspace and a backslash in
# PostgreSQL's patterns.
_WORD_EDGE = frozenset({"\\b", "\\B"})
_ESCAPE = re.compile(r"\\.", re.DOTALL)


class PowerRequest(StrEnum):
    ON = "on"
    OFF = "off"
    RESET = "reset"


class PowerMode(StrEnum):
    """How a machine is switched off."""

    GRACEFUL = "graceful"  # the operating system shuts down; after a deadline, farrier forces the power off
    FORCE = "force"  # at once, whatever runs on the machine


FORCE_AFTER_MAX = 86_400
"""Largest deadline of a graceful shutdown, in seconds. A machine that has not shut down within a day never does."""


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of the parameters of an action. Parameters are texts, flags, choices, integers, lists of texts and JSON
    objects. The rules between fields are data, so that the database can check the same rules."""

    any_of: ClassVar[tuple[str, ...]] = ()  # at least one of these is required
    needs: ClassVar[Mapping[str, str]] = {}  # a flag that is true requires the other field

    def __post_init__(self) -> None:
        if self.any_of and all(getattr(self, name) is None for name in self.any_of):
            raise ValueError(f"needs at least one of: {', '.join(self.any_of)}")
        for flag, other in self.needs.items():
            if getattr(self, flag) and getattr(self, other) is None:
                raise ValueError(f"{flag}: true requires {other}")


class _Forcible(Params, frozen=True, kw_only=True):
    """Parameters of actions with the flag `force`. `force` ends unfinished agent tasks, so it requires a reason."""

    needs: ClassVar[Mapping[str, str]] = {"force": "reason"}

    force: Annotated[bool, msgspec.Meta(description="End unfinished agent tasks. Requires a reason.")] = False
    reason: Reason | None = None


class NoParams(Params, frozen=True):
    """No parameters."""


_Removable: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        max_length=20,
        pattern=rf"\A(?:{'|'.join(details.REMOVABLE)})\Z",
        extra={FAULT: f"is {{value}}, which cannot be removed; expected one of: {', '.join(details.REMOVABLE)}"},
    ),
]


class Unset(Params, frozen=True, kw_only=True):
    """The parameters of `Set` that are not details: the names of the details to remove, and the version that the node
    must have. The version prevents overwriting a change by another client."""

    unset: Annotated[tuple[_Removable, ...], msgspec.Meta(max_length=len(details.REMOVABLE))] | None = None
    if_version: Annotated[int, msgspec.Meta(ge=1)] | None = None


# Omitted details do not change. `labels` replaces all labels, and `macs` replaces all MAC addresses.
Set: type[Unset] = cast(
    type[Unset],
    msgspec.defstruct(
        "Set",
        [(name, detail.form | None, None) for name, detail in details.DETAILS.items()],
        bases=(Unset,),
        namespace={"any_of": (*details.DETAILS, "unset")},
        frozen=True,
        kw_only=True,
    ),
)


class SetBmc(Params, frozen=True):
    """Parameters of `set_bmc`. Omitted details do not change. A single detail cannot be removed; `clear_bmc` removes
    both."""

    any_of: ClassVar[tuple[str, ...]] = ("address", "credential", "replace")
    needs: ClassVar[Mapping[str, str]] = {"force": "replace"}

    address: Annotated[Address, msgspec.Meta(description="https URL or host of the BMC.")] | None = None
    credential: Annotated[
        Reference, msgspec.Meta(description="Reference to the BMC's login, not the login itself.")
    ] | (None) = None
    replace: (
        Annotated[
            bool,
            msgspec.Meta(
                description="Whether the node may get another machine than the recorded one. False ends a "
                "replacement that is not done yet."
            ),
        ]
        | None
    ) = None
    force: Annotated[
        bool, msgspec.Meta(description="Replace the machine even of a node in service. Requires replace.")
    ] = False


class SetPower(Params, frozen=True):
    """Parameters of `set_power`."""

    power: Annotated[PowerRequest, msgspec.Meta(description="What to do.")]
    enforce: Annotated[
        bool,
        msgspec.Meta(
            description="Keep the power on or off from then on. Without it, farrier stops enforcing the power."
        ),
    ] = False
    mode: (
        Annotated[
            PowerMode,
            msgspec.Meta(
                description="How the machine is switched off. Default: graceful for a node in service, otherwise force."
            ),
        ]
        | None
    ) = None
    force_after: (
        Annotated[
            int,
            msgspec.Meta(ge=1, le=FORCE_AFTER_MAX, description="After this number of seconds, graceful becomes force."),
        ]
        | None
    ) = None


class Onboard(Params, frozen=True):
    mode: Annotated[
        OnboardingMode,
        msgspec.Meta(
            description="Whether MAAS deploys the machine (deploy), a running machine is adopted with reads only "
            "(adopt), or an operator installs it (manual)."
        ),
    ]


class Because(Params, frozen=True):
    """Parameters of an action that requires a reason."""

    reason: Reason


class MaybeBecause(Params, frozen=True):
    reason: Reason | None = None


class QuarantineParams(Params, frozen=True, kw_only=True):
    """Parameters of `quarantine`."""

    reason: Reason
    key: Annotated[
        HoldKey,
        msgspec.Meta(
            description="Name of the hold, so that several operators or programs can hold a node for separate reasons. "
            "A further quarantine with the same key only changes the reason."
        ),
    ] = DEFAULT_KEY


class ReleaseParams(Params, frozen=True, kw_only=True):
    """Parameters of `release`."""

    key: (
        Annotated[
            ConditionName,
            msgspec.Meta(
                description="Key of a hold, or name of another cause of the quarantine. Default: the only hold."
            ),
        ]
        | None
    ) = None
    reason: Reason | None = None


class Drain(_Forcible, frozen=True):
    pass


class RemoveParams(_Forcible, frozen=True):
    remove_maas: Annotated[bool, msgspec.Meta(description="Also delete the machine from MAAS.")] = False


class DecommissionParams(_Forcible, frozen=True, kw_only=True):
    """Parameters of `decommission`."""

    mode: Annotated[DecommissionMode, msgspec.Meta(description="What is cleaned, and what follows.")]
    retire: Annotated[
        bool,
        msgspec.Meta(description="Keep the node retired even after a mode that would return it to service."),
    ] = False
    leave_on: Annotated[
        bool,
        msgspec.Meta(description="A full decommission may leave a machine on that farrier cannot switch off."),
    ] = False


class FieldRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """The database's rules for one parameter. `pattern` is a regular expression that must match somewhere in the text;
    `fault` is the error text if it does not match. `max` is the number of characters of a text or elements of an array,
    or the largest integer. `items` is the rule of each element of an array, or of each value of an object. `schema` has
    the rules of the fields of a struct. `help` says what the parameter is for; the database does not read it."""

    type: str  # string, boolean, enum, integer, number, array, object or struct
    required: bool = False
    max: int | None = None
    pattern: str | None = None
    enum: tuple[str, ...] = ()
    min: int | None = None
    items: FieldRules | None = None
    fault: str | None = None
    schema: ParamsRules | None = None
    help: str = ""


class ParamsRules(msgspec.Struct, frozen=True):
    """The database's rules for a set of parameters. At least one of the fields in `any_of` is required. `needs` names,
    for each flag, the field that is required if the flag is true."""

    fields: Mapping[str, FieldRules]
    any_of: tuple[str, ...]
    needs: Mapping[str, str]


def describe(params: type[Params]) -> ParamsRules:
    """Return the rules of one struct as data. The struct and the rules must accept the same parameters; a difference is
    a bug. Raises TypeError for a field for which the database has no rule."""
    info = msgspec.inspect.type_info(params)
    assert isinstance(info, msgspec.inspect.StructType)
    fields: dict[str, FieldRules] = {}
    for field in info.fields:
        try:
            fields[field.encode_name] = _field(field.type, field.required)
        except TypeError as error:
            raise TypeError(f"parameter {field.encode_name}: {error}") from None
    return ParamsRules(fields, params.any_of, params.needs)


def _has_rules(element: msgspec.inspect.Type) -> bool:
    """Return whether an array may have such elements: texts or structs."""
    inner = element.type if isinstance(element, msgspec.inspect.Metadata) else element
    return isinstance(inner, msgspec.inspect.StrType | msgspec.inspect.StructType)


def _field(info: msgspec.inspect.Type, required: bool) -> FieldRules:
    match info:
        case msgspec.inspect.Metadata(type=inner, extra=extra, extra_json_schema=told):
            known = {"fault": (extra or {}).get(FAULT), "help": (told or {}).get("description", "")}
            return msgspec.structs.replace(_field(inner, required), **known)
        case msgspec.inspect.StrType(min_length=None | 0 | 1):
            if info.pattern and _WORD_EDGE & set(_ESCAPE.findall(info.pattern)):
                raise TypeError(f"the pattern {info.pattern} has \\b or \\B, which PostgreSQL interprets differently")
            return FieldRules("string", required, info.max_length, info.pattern or (r"." if info.min_length else None))
        case msgspec.inspect.StructType(cls=cls) if issubclass(cls, Params):
            return FieldRules("struct", required, schema=describe(cls))
        case msgspec.inspect.VarTupleType(min_length=None | 0) if _has_rules(info.item_type):
            return FieldRules("array", required, info.max_length, items=_field(info.item_type, required=False))
        case msgspec.inspect.DictType(key_type=msgspec.inspect.StrType(), value_type=value):
            is_any = isinstance(value, msgspec.inspect.AnyType)
            return FieldRules("object", required, items=None if is_any else _field(value, required=False))
        case msgspec.inspect.UnionType():
            given = next(t for t in info.types if not isinstance(t, msgspec.inspect.NoneType))
            return _field(given, required)
        case _:
            return _plain(info, required)


def _plain(info: msgspec.inspect.Type, required: bool) -> FieldRules:
    """Return the rules of a flag, a choice or a number."""
    match info:
        case msgspec.inspect.BoolType():
            return FieldRules("boolean", required)
        case msgspec.inspect.EnumType():
            return FieldRules("enum", required, enum=tuple(info.cls))
        case msgspec.inspect.IntType(gt=None, lt=None, multiple_of=None):
            return FieldRules("integer", required, info.le, min=info.ge)
        case msgspec.inspect.FloatType(gt=None, lt=None, le=None, multiple_of=None, ge=0):
            return FieldRules("number", required, min=0)
        case _:
            raise TypeError(
                "expected a text, a flag, a choice (a StrEnum), a whole number (ge, le), a number (ge=0), a struct of "
                f"parameters, a tuple of texts or structs (max_length) or a dict; got {info}"
            )
