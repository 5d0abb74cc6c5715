"""Steps that act on one machine: describe, label, switch off and on, reset, install again."""

from __future__ import annotations

from tests.acceptance.api import Api, Object
from tests.acceptance.fleet import IN_SERVICE, state_of

# Seconds until a machine is in service again: a deployment of a large server takes up to an hour.
INSTALLS_WITHIN = 3600.0
_BOOTS_WITHIN = 900.0  # seconds

_OWNER = "acceptance"


def describe(api: Api, node: str) -> Object:
    """Show the state of a machine."""
    found = api.node(node)
    return {"instance_id": str(found["id"]), "state": state_of(found)}


def label(api: Api, node: str) -> Object:
    """Set labels beside those that the node has, and read them back."""
    wanted = {**api.node(node)["labels"], "Name": node, "CreatedBy": _OWNER}
    api.patch(f"/nodes/{node}", {"labels": wanted})
    found = api.node(node)
    return {"instance_id": str(found["id"]), "tags": found["labels"], "tag_count": len(found["labels"])}


def image(api: Api, node: str) -> Object:
    """Show the image that MAAS reports to have installed."""
    found = api.node(node)
    seen = found["maas"] or {}
    return {
        **describe(api, node),
        "image_id": f"{seen['osystem']}/{seen['distro_series']}" if seen.get("osystem") else None,
        "image_name": seen.get("distro_series"),
        "instance_state": state_of(found),
    }


def stop(api: Api, node: str) -> Object:
    """Switch the machine off, and read its power from the BMC."""
    api.ask(node, "set_power", power="off", mode="force")
    found = api.node(node)
    return {"instance_id": str(found["id"]), "stop_initiated": True, "state": state_of(found)}


def start(api: Api, node: str) -> Object:
    """Switch the machine on, and wait until it is in service. farrier does not log in, so nothing is known of SSH."""
    api.ask(node, "set_power", power="on")
    return {**_in_service(api, node, _BOOTS_WITHIN), "start_initiated": True, "ssh_ready": None}


def reboot(api: Api, node: str) -> Object:
    """Reset the machine. That the system booted is seen by its agent, not by SSH."""
    api.ask(node, "set_power", power="reset", mode="force")
    found = _in_service(api, node, _BOOTS_WITHIN)
    return {**found, "reboot_initiated": True, "reboot_confirmed": None, "ssh_ready": None}


def power_cycle(api: Api, node: str) -> Object:
    """Switch the machine off and on; the BMC is read in between."""
    stopped = stop(api, node)
    started = start(api, node)
    return {
        **started,
        "power_cycle_initiated": True,
        "power_was_off": stopped["state"] == "stopped",
        "ssh_ready": None,
    }


def reinstall(api: Api, node: str) -> Object:
    """Clean the machine and install it again, and wait until it is in service."""
    api.ask(node, "decommission", mode="reimage")
    return _in_service(api, node, INSTALLS_WITHIN)


def _in_service(api: Api, node: str, within: float) -> Object:
    """Wait until the node is active and nothing is left to do for it."""

    def is_done(found: Object) -> bool:
        return found["status"] == IN_SERVICE and found["workflow"] is None

    found = api.until(node, is_done, within=within)
    return {"instance_id": str(found["id"]), "state": state_of(found)}
