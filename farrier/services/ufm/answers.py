"""Pure functions that decode successful responses of UFM to structs of the model, or raise `Garbled`.

Fields that farrier does not use may have any value. Each partition of a list is decoded separately, on demand, so a
fault in one partition does not affect the others. For a list that contradicts itself, `Garbled` is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from farrier.model.partition.ufm import Membership, PartitionPort, Pkey, Qos, guid
from farrier.services.http.messages import Garbled, HttpResponse, understood

_T = TypeVar("_T")
Listed: TypeAlias = Mapping[int, tuple[msgspec.Raw, ...]]
"""The entries of a list by number, not decoded yet. UFM's keys are hexadecimal texts with the membership bit, so
several keys, such as 0x1 and 0x8001, can stand for one number. A number has several entries only in this case."""
# The sixteenth bit is the membership, and is not part of the number.
_NUMBER = 0x7FFF


class _Guid(msgspec.Struct, frozen=True):
    guid: str
    membership: Membership = Membership.FULL
    index0: bool = False


class _Pkey(msgspec.Struct, frozen=True):
    """A partition in a response. `guids` and `qos_conf` are set only if the request asked for them."""

    partition: str = ""
    ip_over_ib: bool = True
    guids: tuple[_Guid, ...] = ()
    qos_conf: Qos | None = None


def listed(answer: HttpResponse) -> Listed:
    """Return the partitions of a list as a mapping from each number to its entries."""
    found: dict[int, tuple[msgspec.Raw, ...]] = {}
    for key, entry in _shaped(answer, dict[str, msgspec.Raw]).items():
        number = _number(key)
        found[number] = (*found.get(number, ()), entry)
    return found


def of_lists(number: int, with_ports: Listed, with_qos: Listed) -> Pkey | None:
    """Return one partition, combined from its entries in the two lists of UFM. Returns None if the list with ports does
    not contain the partition."""
    entry = _one(number, with_ports)
    if entry is None:
        return None
    services = _one(number, with_qos)
    return msgspec.structs.replace(_pkey(number, entry), qos=None if services is None else services.qos_conf)


def pkey(number: int, answer: HttpResponse) -> Pkey | None:
    """Return one partition, or None for `{}`, which UFM returns if the partition does not exist."""
    entry = _shaped(answer, dict[str, Any])
    return _pkey(number, _shaped(answer, _Pkey)) if entry else None


def done(answer: HttpResponse) -> None:
    """Check that UFM accepted a change. UFM returns nothing, `{}` or a job; only this form is checked."""
    if answer.is_page:
        raise Garbled("the response is a web page, not a response of UFM's API")
    if answer.body.strip() and "json" in answer.content_type.lower():
        _shaped(answer, msgspec.Raw)


def _shaped(answer: HttpResponse, shape: type[_T]) -> _T:
    return understood(answer, shape, service="UFM")


def _one(number: int, entry: Listed) -> _Pkey | None:
    found = [_shaped(HttpResponse(200, bytes(one)), _Pkey) for one in entry.get(number, ())]
    if any(one != found[0] for one in found[1:]):
        raise Garbled(f"the response lists partition {number:#x} twice, with different data")
    return found[0] if found else None


def _number(key: str) -> int:
    try:
        return int(key, 16) & _NUMBER
    except ValueError:
        raise Garbled("the response lists a partition whose key is not a number") from None


def _pkey(number: int, entry: _Pkey) -> Pkey:
    found: dict[str, PartitionPort] = {}
    for one in entry.guids:
        name = guid(one.guid)
        if name is None:
            raise Garbled(f"a port of partition {number:#x} has an invalid GUID")
        port = PartitionPort(one.membership, one.index0)
        if found.setdefault(name, port) != port:
            raise Garbled(f"the response lists port {name} of partition {number:#x} twice, with different data")
    return Pkey(number=number, name=entry.partition, ip_over_ib=entry.ip_over_ib, ports=found)
