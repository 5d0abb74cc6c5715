"""Pure functions that build requests to UFM: method, path and JSON body.

The UFM client uses these functions. Every path is below `/resources/pkeys`. The model has checked keys and GUIDs, so
they cannot change a path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from farrier.model.ufm import Membership, Port, Qos, Wanted, spelled
from farrier.services.http_messages import Request

_PKEYS = "resources/pkeys"
# UFM's documentation has this final slash in the requests that add and set ports.
_PORTS = f"{_PKEYS}/"


class Operation(StrEnum):
    """The purpose of a request, also the value of a metric label."""

    LIST_PORTS = "list_ports"
    LIST_QOS = "list_qos"
    PKEY = "pkey"
    CREATE = "create"
    SET_QOS = "set_qos"
    ADD = "add"
    SET_PORTS = "set_ports"
    REMOVE = "remove"
    DELETE = "delete"


def list_ports() -> Request:
    """Return the request for every partition with its ports. UFM does not list ports and services together."""
    return Request(operation=Operation.LIST_PORTS, method="GET", path=_PKEYS, query=(("guids_data", "true"),))


def list_qos() -> Request:
    """Return the request for every partition with its services."""
    return Request(operation=Operation.LIST_QOS, method="GET", path=_PKEYS, query=(("qos_conf", "true"),))


def pkey(number: int) -> Request:
    """Return the request for one partition with its ports."""
    query = (("guids_data", "true"),)
    return Request(operation=Operation.PKEY, method="GET", path=f"{_PKEYS}/{spelled(number)}", query=query)


def creation(wanted: Wanted) -> Request:
    """Return the request that creates a partition without ports."""
    body = {"pkey": spelled(wanted.number), "index0": wanted.index0, "ip_over_ib": wanted.ip_over_ib}
    body |= _qos(wanted.qos) | _named(wanted)
    return Request(operation=Operation.CREATE, method="POST", path=f"{_PKEYS}/add", json=body)


def qos(number: int, wanted: Qos) -> Request:
    body = {"pkey": spelled(number), **_qos(wanted)}
    return Request(operation=Operation.SET_QOS, method="PUT", path=f"{_PKEYS}/qos_conf", json=body)


def addition(wanted: Wanted, guids: Sequence[str], membership: Membership) -> Request:
    """Return the request that adds these ports to the partition."""
    body = {
        "pkey": spelled(wanted.number),
        "guids": list(guids),
        "membership": membership.value,
        "index0": wanted.index0,
        "ip_over_ib": wanted.ip_over_ib,
    }
    return Request(operation=Operation.ADD, method="POST", path=_PORTS, json=body | _named(wanted))


def setting(wanted: Wanted, ports: Mapping[str, Port]) -> Request:
    """Return the request that sets exactly these ports, and also the name if farrier names its partitions."""
    body = {
        "pkey": spelled(wanted.number),
        "guids": list(ports),
        "memberships": [port.membership.value for port in ports.values()],
        "index0": wanted.index0,
        "ip_over_ib": wanted.ip_over_ib,
    }
    body |= _qos(wanted.qos) | _named(wanted)
    return Request(operation=Operation.SET_PORTS, method="PUT", path=_PORTS, json=body)


def removal(number: int, guids: Sequence[str]) -> Request:
    path = f"{_PKEYS}/{spelled(number)}/guids/{','.join(guids)}"
    return Request(operation=Operation.REMOVE, method="DELETE", path=path)


def deletion(number: int) -> Request:
    return Request(operation=Operation.DELETE, method="DELETE", path=f"{_PKEYS}/{spelled(number)}")


def _qos(wanted: Qos) -> dict[str, Any]:
    return {
        "mtu_limit": wanted.mtu_limit,
        "service_level": wanted.service_level,
        "rate_limit": wanted.rate_limit,
    }


def _named(wanted: Wanted) -> dict[str, Any]:
    return {"partition_name": wanted.name} if wanted.name else {}
