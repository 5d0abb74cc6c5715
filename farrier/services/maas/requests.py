"""Pure functions that build requests to MAAS: method, path and form.

Bodies are forms, because the region silently ignores JSON; paths end in a slash, because the region accepts no other
paths. If an ID would change the path, it is refused before a request is sent.
"""

from __future__ import annotations

import base64
import re
from enum import StrEnum
from typing import TypeAlias, assert_never

import msgspec

from farrier.model.maas import changes
from farrier.model.maas.changes import Change, NewMachine, PowerAccess
from farrier.model.maas.reading import MaasError, MaasFailure
from farrier.model.maas.scripts import Text
from farrier.services.bmc.address import number
from farrier.services.http.messages import Form, HttpRequest

_Value: TypeAlias = str | int | bool | None

_SYSTEM_ID = re.compile(r"[A-Za-z0-9]{1,64}")
_SCRIPT = re.compile(r"[A-Za-z0-9._-]{1,255}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


class MaasOperation(StrEnum):
    """The purpose of a request, also the value of a metric label."""

    VERSION = "version"
    WHOAMI = "whoami"
    MACHINES = "machines"
    MACHINE = "machine"
    POWER_ADDRESSES = "power_addresses"
    SUBNETS = "subnets"
    FABRICS = "fabrics"
    EVENTS = "events"
    RESULTS = "results"
    SCRIPTS = "scripts"
    SETTING = "setting"
    SAVE_SCRIPT = "save_script"
    CREATE = "create"
    UPDATE = "update"
    COMMISSION = "commission"
    TEST = "test"
    ABORT = "abort"
    SET_BOOT_DISK = "set_boot_disk"
    SET_STORAGE_LAYOUT = "set_storage_layout"
    CREATE_BOND = "create_bond"
    CREATE_VLAN = "create_vlan"
    UPDATE_INTERFACE = "update_interface"
    LINK_SUBNET = "link_subnet"
    DEPLOY = "deploy"
    RELEASE = "release"
    MARK_BROKEN = "mark_broken"
    POWER_OFF = "power_off"
    UNLOCK = "unlock"
    DELETE = "delete"


def path(collection: str, system_id: str, *parts: str | int) -> str:
    """Return the path of a machine, or of a part of it. Raises `MaasError` for an ID that would change the path."""
    if not _SYSTEM_ID.fullmatch(system_id):
        raise MaasError(MaasFailure.INVALID, f"{system_id[:64]!r} is not a system ID of MAAS; farrier changed nothing")
    return "/".join((collection, system_id, *map(str, parts), ""))


def creation(new: NewMachine) -> HttpRequest:
    """Return the request that creates a machine without commissioning it. By default, MAAS would commission the
    machine, and would not report a failed commissioning."""
    return HttpRequest(
        operation=MaasOperation.CREATE,
        method="POST",
        path="machines/",
        form=(
            *_form(
                hostname=new.hostname,
                description=new.description,
                architecture=new.architecture,
                domain=new.domain,
                zone=new.zone,
                pool=new.pool,
                commission=False,
            ),
            *(("mac_addresses", mac) for mac in new.mac_addresses),
            *_power(new.power),
        ),
        secrets=(new.power.password,),
    )


def script_path(name: str) -> str:
    """Return the path of a script, which has no slash at its end (maasserver/urls_api.py:717). Raises `MaasError` for a
    name that would change the path or stand for an ID."""
    if not _SCRIPT.fullmatch(name) or name.isdigit():
        raise MaasError(MaasFailure.INVALID, f"{name[:64]!r} is not a name of a script; farrier changed nothing")
    return f"scripts/{name}"


def saving(script: Text, *, is_new: bool) -> HttpRequest:
    """Return the request that stores the text as a new testing script, or as a new revision of the script."""
    form = _form(name=script.name, script=script.text, comment=script.comment or None)
    if not is_new:
        return HttpRequest(operation=MaasOperation.SAVE_SCRIPT, method="PUT", path=script_path(script.name), form=form)
    form = (*form, *_form(type="testing", tags=",".join(script.tags)))
    return HttpRequest(operation=MaasOperation.SAVE_SCRIPT, method="POST", path="scripts/", form=form)


def of_change(system_id: str, change: Change, *, agent_name: str) -> HttpRequest:  # noqa: C901
    """Return the HTTP request for `change`."""
    match change:
        case changes.UpdateMachine():
            return _update(system_id, change)
        case changes.Commission():
            scripts = change.testing_scripts
            return _on_machine(
                MaasOperation.COMMISSION,
                system_id,
                skip_networking=change.skip_networking,
                skip_storage=change.skip_storage,
                skip_bmc_config=change.skip_bmc_config,
                enable_ssh=change.enable_ssh,
                testing_scripts=None if scripts is None else ",".join(scripts) or "none",
            )
        case changes.TestMachine():
            return _on_machine(MaasOperation.TEST, system_id, testing_scripts=change.script)
        case changes.Deploy():
            return _deploy(system_id, change, agent_name)
        case changes.Release():
            return _on_machine(MaasOperation.RELEASE, system_id, **msgspec.structs.asdict(change))
        case changes.Abort():
            return _on_machine(MaasOperation.ABORT, system_id, comment=change.comment)
        case changes.MarkBroken():
            return _on_machine(MaasOperation.MARK_BROKEN, system_id, comment=change.comment)
        case changes.PowerOff():
            return _on_machine(MaasOperation.POWER_OFF, system_id, comment=change.comment)
        case changes.Unlock():
            return _on_machine(MaasOperation.UNLOCK, system_id, comment=change.comment)
        case changes.Delete():
            return HttpRequest(operation=MaasOperation.DELETE, method="DELETE", path=path("machines", system_id))
        case changes.SetBootDisk():
            return _operation(MaasOperation.SET_BOOT_DISK, path("nodes", system_id, "blockdevices", change.device))
        case changes.SetStorageLayout():
            return _on_machine(
                MaasOperation.SET_STORAGE_LAYOUT,
                system_id,
                storage_layout=change.layout,
                root_size=change.root_size,
            )
        case changes.CreateBond() | changes.CreateVlan() | changes.UpdateInterface() | changes.LinkSubnet():
            return _network(system_id, change)
        case _ as never:
            assert_never(never)


def _network(
    system_id: str,
    change: changes.CreateBond | changes.CreateVlan | changes.UpdateInterface | changes.LinkSubnet,
) -> HttpRequest:
    interfaces = path("nodes", system_id, "interfaces")
    match change:
        case changes.CreateBond():
            form = _form(
                name=change.name,
                bond_mode=change.mode,
                bond_lacp_rate=change.lacp_rate,
                bond_xmit_hash_policy=change.xmit_hash_policy,
                mtu=change.mtu,
                vlan=change.vlan,
            )
            parents = tuple(("parents", str(parent)) for parent in change.parents)
            return _operation(MaasOperation.CREATE_BOND, interfaces, *form, *parents)
        case changes.CreateVlan():
            form = _form(parent=change.parent, vlan=change.vlan, mtu=change.mtu)
            return _operation(MaasOperation.CREATE_VLAN, interfaces, *form)
        case changes.UpdateInterface():
            return HttpRequest(
                operation=MaasOperation.UPDATE_INTERFACE,
                method="PUT",
                path=path("nodes", system_id, "interfaces", change.interface),
                form=_form(name=change.name, vlan=change.vlan, mtu=change.mtu),
            )
        case changes.LinkSubnet():
            form = _form(
                mode=change.mode.value,
                subnet=change.subnet,
                ip_address=change.ip_address,
                force=True,  # otherwise each repetition adds a link
            )
            return _operation(
                MaasOperation.LINK_SUBNET, path("nodes", system_id, "interfaces", change.interface), *form
            )
        case _ as never:
            assert_never(never)


def _update(system_id: str, change: changes.UpdateMachine) -> HttpRequest:
    named = _form(hostname=change.hostname, description=change.description, enable_hw_sync=change.enable_hw_sync)
    return HttpRequest(
        operation=MaasOperation.UPDATE,
        method="PUT",
        path=path("machines", system_id),
        form=(*named, *_power(change.power)) if change.power else named,
        secrets=(change.power.password,) if change.power else (),
    )


def _deploy(system_id: str, change: changes.Deploy, agent_name: str) -> HttpRequest:
    """Return the request to deploy. The user data contains a token, and MAAS may quote it in a refusal."""
    encoded = base64.b64encode(change.user_data.encode()).decode()
    asked = _on_machine(
        MaasOperation.DEPLOY,
        system_id,
        user_data=encoded,
        comment=change.comment,
        agent_name=agent_name,
        distro_series=change.distro_series,
        hwe_kernel=change.hwe_kernel,
        enable_hw_sync=change.enable_hw_sync,
    )
    return msgspec.structs.replace(asked, secrets=(encoded, change.user_data))


def _on_machine(operation: MaasOperation, system_id: str, **values: _Value) -> HttpRequest:
    return _operation(operation, path("machines", system_id), *_form(**values))


def _operation(operation: MaasOperation, path: str, *form: tuple[str, str]) -> HttpRequest:
    """Return the request for an operation that has the same name in MAAS."""
    return HttpRequest(operation=operation, method="POST", path=path, query=(("op", operation.value),), form=form)


def _power(power: PowerAccess) -> Form:
    return (
        ("power_type", "redfish"),
        *_form(
            power_parameters_power_address=_bare(power.address),
            power_parameters_power_user=power.username,
            power_parameters_power_pass=power.password,
            power_parameters_node_id=power.node_id or None,
        ),
    )


def _form(**values: _Value) -> Form:
    return tuple((name, _text(value)) for name, value in values.items() if value is not None)


def _text(value: str | int | bool) -> str:
    """Return a value as text for a form. A flag is sent as `true` or `false`: Django reads `0` as true, but every form
    of MAAS reads `false` as false."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bare(address: str) -> str:
    """Return the address without a URL's scheme, because the region responds to a URL here with a server error."""
    found = number(address.strip("[]"))
    if found is not None:
        return str(found)
    if not _HOST.fullmatch(address):
        raise MaasError(
            MaasFailure.INVALID,
            f"MAAS does not accept {address[:64]!r} as the address of a BMC; use a host name or an IP address, not "
            "a URL",
        )
    return address
