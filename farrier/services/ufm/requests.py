"""Pure functions that build requests to UFM: method, path and JSON body.

Every path is below `/resources/pkeys`. The model has checked keys and GUIDs, so they cannot change a path.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, assert_never

import msgspec

from farrier.model.partition.ufm import Add, Create, DeleteKey, PartitionChange, RemovePorts, SetPorts, SetQos, spelled
from farrier.services.http.messages import HttpRequest

_PKEYS = "resources/pkeys"
# UFM's documentation has this final slash in the requests that add and set ports.
_PORTS = f"{_PKEYS}/"


class UfmOperation(StrEnum):
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


# Every partition with its ports, and every partition with its services. UFM does not list both together.
LIST_PORTS = HttpRequest(operation=UfmOperation.LIST_PORTS, path=_PKEYS, query=(("guids_data", "true"),))
LIST_QOS = HttpRequest(operation=UfmOperation.LIST_QOS, path=_PKEYS, query=(("qos_conf", "true"),))


def pkey(number: int) -> HttpRequest:
    """Return the request for one partition with its ports."""
    query = (("guids_data", "true"),)
    return HttpRequest(operation=UfmOperation.PKEY, method="GET", path=f"{_PKEYS}/{spelled(number)}", query=query)


def of_change(change: PartitionChange) -> HttpRequest:
    """Return the request for `change`. If farrier names its partitions, some changes also send the name."""
    wanted = change.wanted
    key = spelled(wanted.number)
    body: dict[str, Any] = {"pkey": key, "index0": wanted.index0, "ip_over_ib": wanted.ip_over_ib}
    body |= {"partition_name": wanted.name} if wanted.name else {}
    qos = msgspec.structs.asdict(wanted.qos)
    match change:
        case Create():
            return HttpRequest(operation=UfmOperation.CREATE, method="POST", path=f"{_PKEYS}/add", json=body | qos)
        case SetQos():
            return HttpRequest(
                operation=UfmOperation.SET_QOS, method="PUT", path=f"{_PKEYS}/qos_conf", json={"pkey": key, **qos}
            )
        case Add():
            body |= {"guids": change.guids, "membership": change.membership}
            return HttpRequest(operation=UfmOperation.ADD, method="POST", path=_PORTS, json=body)
        case SetPorts():
            ports = change.ports
            body |= {"guids": list(ports), "memberships": [port.membership for port in ports.values()]}
            return HttpRequest(operation=UfmOperation.SET_PORTS, method="PUT", path=_PORTS, json=body | qos)
        case RemovePorts():
            path = f"{_PKEYS}/{key}/guids/{','.join(change.guids)}"
            return HttpRequest(operation=UfmOperation.REMOVE, method="DELETE", path=path)
        case DeleteKey():
            return HttpRequest(operation=UfmOperation.DELETE, method="DELETE", path=f"{_PKEYS}/{key}")
        case _ as never:
            assert_never(never)
