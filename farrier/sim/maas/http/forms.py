"""How MAAS parses the values of a client: the ways, and the table of all fields of all operations.

For each field, the table defines the way, the dictionary from which MAAS reads the field, and the line of MAAS's source
that does this. `call` reads only the fields in this table, so the simulation ignores the same fields as MAAS.
Operations are named `METHOD path?op=name`, with `*` for the names in a path. Sources are lines of canonical/maas,
branch 3.7 at 362c9ab8 (3.7.3), below `src/`.

MAAS parses with Django's form fields (4.2.11), or with validators of formencode (2.1) for single parameters, and the
results differ: the flag `0` is true in Django and false in formencode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


Fields = Mapping[str, Field]

LAYOUTS = ("bcache", "blank", "custom", "flat", "lvm", "vmfs6", "vmfs7")
POWER_PARAMETERS = "power_parameters_"
_MODES = ("auto", "dhcp", "static", "link_up")
_BOND_MODES = ("balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")
_HASH_POLICIES = ("layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4")

_API, _NODES = "maasserver/api/machines.py", "maasserver/api/nodes.py"
_MACHINE, _SCRIPTS = "maasserver/forms/__init__.py", "maasserver/forms/ephemeral.py"
_INTERFACE, _LINK = "maasserver/forms/interface.py", "maasserver/forms/interface_link.py"
_LAYOUT, _EVENTS = "maasserver/storage_layouts.py", "maasserver/api/events.py"
_RESULTS, _STORED, _SCRIPT = (
    "maasserver/api/scriptresults.py",
    "maasserver/api/scripts.py",
    "maasserver/forms/script.py",
)


def _raw(source: str, origin: Origin = Origin.POST) -> Field:
    return Field(reader=Reader.RAW, source=source, origin=origin)


def _char(source: str) -> Field:
    return Field(reader=Reader.CHAR, source=source)


def _checkbox(source: str) -> Field:
    return Field(reader=Reader.CHECKBOX, source=source)


def _word(source: str, *, default: bool = False) -> Field:
    return Field(reader=Reader.STRING_BOOL, source=source, default=default)


def _int(source: str) -> Field:
    return Field(reader=Reader.INT, source=source, origin=Origin.GET)


def _integer(source: str, *, least: int | None = None) -> Field:
    return Field(reader=Reader.INTEGER, source=source, least=least)


def _choice(source: str, *choices: str, required: bool = False) -> Field:
    return Field(reader=Reader.CHOICE, source=source, choices=choices, required=required)


def _many(source: str, origin: Origin = Origin.POST) -> Field:
    return Field(reader=Reader.MANY, source=source, origin=origin)


_COMMISSION: Fields = {
    "enable_ssh": _checkbox(f"{_SCRIPTS}:244"),
    "skip_bmc_config": _checkbox(f"{_SCRIPTS}:291"),
    "skip_networking": _checkbox(f"{_SCRIPTS}:292"),
    "skip_storage": _checkbox(f"{_SCRIPTS}:293"),
    "commissioning_scripts": _many(f"{_SCRIPTS}:123"),
    "testing_scripts": _many(f"{_SCRIPTS}:123"),
}
_POWER: Fields = {
    "power_type": _char(f"{_MACHINE}:305"),
    f"{POWER_PARAMETERS}power_address": _char("provisioningserver/drivers/power/redfish.py:280"),
    f"{POWER_PARAMETERS}power_user": _char("provisioningserver/drivers/power/redfish.py:281"),
    f"{POWER_PARAMETERS}power_pass": _char("provisioningserver/drivers/power/redfish.py:282"),
    f"{POWER_PARAMETERS}node_id": _char("provisioningserver/drivers/power/redfish.py:289"),
}
_OF_MACHINE: Fields = {
    "hostname": _char(f"{_MACHINE}:709"),
    "domain": _char(f"{_MACHINE}:715"),
    "architecture": _choice(f"{_MACHINE}:797"),
    "description": _char(f"{_MACHINE}:1272"),
    "zone": _choice(f"{_MACHINE}:1200"),
    "pool": _choice(f"{_MACHINE}:1207"),
    **_POWER,
}
_ACQUIRE: Fields = {
    "comment": _raw(f"{_API}:267"),
    "agent_name": _raw(f"{_API}:311"),
}
_START: Fields = {"user_data": _raw(f"{_NODES}:1000"), "comment": _raw(f"{_NODES}:1001")}
# Any text switches the output on, even `false`: formencode's Bool.
_SHOWN: Fields = {
    "include_output": _raw(f"{_RESULTS}:124", Origin.GET),
    "filters": _raw(f"{_RESULTS}:126", Origin.GET),
}
_OF_SCRIPT: Fields = {
    "name": _char(f"{_SCRIPT}:481"),
    "script": _raw(f"{_SCRIPT}:74"),
    "comment": _char(f"{_SCRIPT}:76"),
    "tags": _char(f"{_SCRIPT}:94"),
    "type": _char(f"{_SCRIPT}:128"),
}
_OF_INTERFACE: Fields = {
    "name": _char(f"{_INTERFACE}:326"),
    "mac_address": _char(f"{_INTERFACE}:325"),
    "vlan": _choice(f"{_INTERFACE}:85"),
    "tags": _char(f"{_INTERFACE}:86"),
    "mtu": _integer(f"{_INTERFACE}:52", least=552),
}
_BOND: Fields = {
    "bond_mode": _choice(f"{_INTERFACE}:522", *_BOND_MODES),
    "bond_miimon": _integer(f"{_INTERFACE}:533", least=0),
    "bond_downdelay": _integer(f"{_INTERFACE}:535", least=0),
    "bond_updelay": _integer(f"{_INTERFACE}:537", least=0),
    "bond_num_grat_arp": _integer(f"{_INTERFACE}:541", least=0),
    "bond_lacp_rate": _choice(f"{_INTERFACE}:545", "fast", "slow"),
    "bond_xmit_hash_policy": _choice(f"{_INTERFACE}:556", *_HASH_POLICIES),
}


def _on_machine(op: str, fields: Fields) -> dict[str, Fields]:
    return {f"POST machines/*?op={op}": fields}


FIELDS: Mapping[str, Fields] = {
    "POST machines": {
        **_OF_MACHINE,
        **_COMMISSION,
        "mac_addresses": _many(f"{_MACHINE}:1489"),
        "commission": _word(f"{_API}:2096", default=True),
        "deployed": _word(f"{_API}:2099"),
        "deployed in the form": Field(reader=Reader.CHECKBOX, source=f"{_MACHINE}:1281", sent_as="deployed"),
    },
    "POST machines?op=allocate": {**_ACQUIRE, "system_id": _raw(f"{_API}:2576")},
    "GET machines?op=power_parameters": {"id": _many(f"{_API}:2297", Origin.GET)},
    "PUT machines/*": {**_OF_MACHINE, "enable_hw_sync": _checkbox(f"{_MACHINE}:1083")},
    **_on_machine("commission", _COMMISSION),
    **_on_machine(
        "deploy",
        {
            **_ACQUIRE,
            **_START,
            "distro_series": _raw(f"{_API}:809"),
            "hwe_kernel": _raw(f"{_API}:811"),
            "enable_hw_sync": _word(f"{_API}:307"),
        },
    ),
    **_on_machine(
        "release",
        {
            "comment": _char(f"{_SCRIPTS}:323"),
            "erase": _checkbox(f"{_SCRIPTS}:324"),
            "secure_erase": _checkbox(f"{_SCRIPTS}:325"),
            "quick_erase": _checkbox(f"{_SCRIPTS}:326"),
            "force": _checkbox(f"{_SCRIPTS}:327"),
        },
    ),
    **_on_machine("test", {"testing_scripts": _many(f"{_SCRIPTS}:71"), "enable_ssh": _checkbox(f"{_SCRIPTS}:189")}),
    **_on_machine("mark_broken", {"comment": _raw(f"{_API}:1520")}),
    **_on_machine("abort", {"comment": _raw(f"{_NODES}:1198")}),
    **_on_machine("mark_fixed", {"comment": _raw(f"{_API}:1552")}),
    **_on_machine("lock", {"comment": _raw(f"{_API}:1669")}),
    **_on_machine("unlock", {"comment": _raw(f"{_API}:1704")}),
    **_on_machine("power_off", {"stop_mode": _raw(f"{_NODES}:1096"), "comment": _raw(f"{_NODES}:1097")}),
    **_on_machine(
        "set_storage_layout",
        {
            "storage_layout": _choice(f"{_LAYOUT}:1085", *LAYOUTS, required=True),
            "boot_size": _char(f"{_LAYOUT}:53"),
            "root_size": _char(f"{_LAYOUT}:54"),
            "root_device": _choice(f"{_LAYOUT}:88"),
        },
    ),
    "PUT nodes/*/interfaces/*": {**_OF_INTERFACE, **_BOND},
    "POST nodes/*/interfaces?op=create_bond": {
        **_OF_INTERFACE,
        **_BOND,
        "parents": _many(f"{_INTERFACE}:49"),
    },
    "POST nodes/*/interfaces?op=create_vlan": {**_OF_INTERFACE, "parent": _many(f"{_INTERFACE}:49")},
    "POST nodes/*/interfaces/*?op=link_subnet": {
        "force": _word("maasserver/api/interfaces.py:850"),
        "mode": Field(reader=Reader.CASELESS_CHOICE, source=f"{_LINK}:61", choices=_MODES, required=True),
        "subnet": _choice(f"{_LINK}:34"),
        "ip_address": _char(f"{_LINK}:36"),
        "default_gateway": _checkbox(f"{_LINK}:38"),
    },
    "POST nodes/*/interfaces/*?op=unlink_subnet": {"id": _choice(f"{_LINK}:247", required=True)},
    "GET events?op=query": {
        "id": _many(f"{_NODES}:167", Origin.GET),
        "after": _int(f"{_EVENTS}:122"),
        "before": _int(f"{_EVENTS}:123"),
        "level": _raw(f"{_EVENTS}:124", Origin.GET),
        "limit": _int(f"{_EVENTS}:125"),
    },
    "GET nodes/*/results": {"type": _raw(f"{_RESULTS}:122", Origin.GET), **_SHOWN},
    "GET nodes/*/results/*": _SHOWN,
    "GET maas?op=get_config": {"name": _raw("maasserver/api/maas.py:120", Origin.GET)},
    "GET scripts": {
        "type": _raw(f"{_STORED}:147", Origin.GET),
        "include_script": _raw(f"{_STORED}:166", Origin.GET),
        "filters": _raw(f"{_STORED}:168", Origin.GET),
    },
    "POST scripts": _OF_SCRIPT,
    "GET scripts/*": {"include_script": _raw(f"{_STORED}:276", Origin.GET)},
    "GET scripts/*?op=download": {"revision": _int(f"{_STORED}:425")},
    "PUT scripts/*": _OF_SCRIPT,
}
