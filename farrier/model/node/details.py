"""The details of a node: the registration data that intent `set` changes. Only `Details` declares them.

Registrations extend `Details`, and views of nodes extend `RowDetails`. `DETAILS` defines the parameters of `set`, the
database's rules for values, the options and filters of the command line and the web, and the table in the
documentation. Nothing here checks a value: the database does so when it stores the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeAlias, get_type_hints

import msgspec

from farrier.model.intents import workflow_condition
from farrier.model.intents.workflow_condition import WorkflowCondition

FAULT = "fault"
"""Key of `extra` in a `Meta`: the error text for a value that does not match the pattern. `{value}` is replaced by the
value."""
CONTROL = r"\u0001-\u001f\u007f-\u009f"
"""The control characters as a part of a regular expression, in Python and in PostgreSQL."""

SiteName: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        max_length=63,
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z",
        extra={
            FAULT: "{value} is not usable: expected the name of the site's file without .toml: 1 to 63 letters, "
            "digits, dots, dashes and underscores, beginning with a letter or digit"
        },
    ),
]
Words: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        max_length=100,
        pattern=rf"\A[^{CONTROL}]+\Z",
        extra={FAULT: "{value} is not usable: expected 1 to 100 characters without control characters"},
    ),
]
Mac: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=50)]
MachineId: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        max_length=64,
        pattern=r"\A[A-Za-z0-9]+\Z",
        extra={
            FAULT: "{value} is not usable: expected the MAAS system ID, 1 to 64 letters and digits, not the host name"
        },
    ),
]


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one detail. `form` is the type of its parameter. `free_when` lists the live workflows during which
    the value may change. If `listed` is set, lists have a column and a filter for the detail; only texts can be
    listed."""

    help: str
    form: Any
    free_when: WorkflowCondition = workflow_condition.ANY
    listed: bool = False
    label: str = ""
    """The text that pages and commands show instead of the name."""


class RowDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The details in the node's row. Every view of a node has these details. The default of each field applies to a
    registration that omits the detail. A detail with the default None can be removed later."""

    site: Annotated[
        str | None,
        Detail(help="site of the node", form=SiteName, free_when=workflow_condition.POWER_IS_FREE, listed=True),
    ] = None
    model: Annotated[
        str | None,
        Detail(help="hardware model of the node", form=Words, free_when=workflow_condition.NOT_INSTALLED, listed=True),
    ] = None
    rack: Annotated[str | None, Detail(help="rack of the node", form=Words, listed=True)] = None
    labels: Annotated[
        Mapping[str, Any],
        Detail(
            help="further facts about the node, a text for each key",
            form=dict[str, str],
            free_when=workflow_condition.NOT_INSTALLED,
        ),
    ] = {}
    maas_id: Annotated[
        str | None,
        Detail(
            help="system ID of the node's machine in MAAS",
            form=MachineId,
            free_when=workflow_condition.POWER_IS_FREE,
            label="MAAS id",
        ),
    ] = None
    agentless: Annotated[
        bool,
        Detail(
            help="the node has no agent: BMC and MAAS report its health",
            form=bool,
            free_when=workflow_condition.NOT_BEGUN,
        ),
    ] = False
    auto_manage: Annotated[
        bool, Detail(help="farrier verifies the BMC as soon as its details are known", form=bool)
    ] = True


class Details(RowDetails, frozen=True, kw_only=True):
    """All details of a node."""

    macs: Annotated[
        tuple[str, ...],
        Detail(
            help="MAC addresses of the node's network cards",
            form=Annotated[tuple[Mac, ...], msgspec.Meta(max_length=100)],
            free_when=workflow_condition.NOT_INSTALLED,
            label="MACs",
        ),
    ] = ()


DETAILS: Mapping[str, Detail] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Details, include_extras=True).items()
}
DEFAULTS: Mapping[str, Any] = msgspec.structs.asdict(Details())
REMOVABLE = tuple(name for name, value in DEFAULTS.items() if value is None)
LISTED = tuple(name for name, detail in DETAILS.items() if detail.listed)


def given(details: Details) -> dict[str, Any]:
    """Return the details that are not None, by name."""
    values = {name: getattr(details, name) for name in DETAILS}
    return {name: value for name, value in values.items() if value is not None}


def shown(details: RowDetails) -> Iterator[tuple[str, str]]:
    """Yield the label and the text of each detail except flags."""
    for name, detail in DETAILS.items():
        value = getattr(details, name, None)
        if isinstance(value, Mapping):
            value = ", ".join(f"{key}={each}" for key, each in value.items())
        elif isinstance(value, tuple):
            value = ", ".join(value)
        if value and not isinstance(value, bool):
            yield detail.label or name, value


def flags(details: RowDetails) -> Iterator[str]:
    """Yield the names of the flags that differ from their defaults: `agentless`, `no auto-manage`."""
    for name, usual in DEFAULTS.items():
        if isinstance(usual, bool) and getattr(details, name) is not usual:
            yield f"{'no ' * usual}{name.replace('_', '-')}"
