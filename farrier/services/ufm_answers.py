"""What a successful answer of UFM says: the structs of the model, or `Garbled`. Pure.

Used by the UFM client. Fields that we do not read may be anything. Of a list each partition is understood by itself,
when it is asked for: what is odd about somebody else's keeps nobody from his own. One that contradicts itself is
garbled: nothing is decided on the word of a UFM that is confused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from farrier.model.ufm import Membership, Pkey, Port, Qos, guid
from farrier.services.http_messages import Answer, Garbled, decoded, understood

_T = TypeVar("_T")
Listed: TypeAlias = Mapping[int, tuple[msgspec.Raw, ...]]
"""What a list says of each number, not understood yet: once, unless two keys of it are the same number."""
# The sixteenth bit says how somebody is a member and is no part of the number.
_NUMBER = 0x7FFF


class _Guid(msgspec.Struct, frozen=True):
    guid: str
    membership: Membership = Membership.FULL
    index0: bool = False


class _Qos(msgspec.Struct, frozen=True):
    mtu_limit: int
    rate_limit: float
    service_level: int


class _Pkey(msgspec.Struct, frozen=True):
    """`guids` and `qos_conf` come with the list that was asked for."""

    partition: str = ""
    ip_over_ib: bool = True
    guids: tuple[_Guid, ...] = ()
    qos_conf: _Qos | None = None


def listed(answer: Answer) -> Listed:
    """Every partition of a list, by its number."""
    found: dict[int, tuple[msgspec.Raw, ...]] = {}
    for key, told in _shaped(answer, dict[str, msgspec.Raw]).items():
        number = _number(key)
        found[number] = (*found.get(number, ()), told)
    return found


def of_lists(number: int, with_ports: Listed, with_qos: Listed) -> Pkey | None:
    """One partition of the two lists that UFM tells; None if the first does not have it."""
    told = _one(number, with_ports)
    if told is None:
        return None
    services = _one(number, with_qos)
    qos = None if services is None or services.qos_conf is None else _qos(services.qos_conf)
    return msgspec.structs.replace(_pkey(number, told), qos=qos)


def pkey(number: int, answer: Answer) -> Pkey | None:
    """One partition; None for `{}`, which is how UFM says that there is none."""
    told = _shaped(answer, dict[str, Any])
    return _pkey(number, _shaped(answer, _Pkey)) if told else None


def done(answer: Answer) -> None:
    """A change that was taken: UFM answers nothing, `{}`, or something of a job; only its form counts."""
    if answer.is_page:
        raise Garbled("a page came instead of an answer of UFM")
    if answer.body.strip() and "json" in answer.content_type.lower():
        _shaped(answer, msgspec.Raw)


def _shaped(answer: Answer, shape: type[_T]) -> _T:
    return understood(answer, shape, service="UFM")


def _one(number: int, told: Listed) -> _Pkey | None:
    found = [decoded(one, _Pkey, service="UFM") for one in told.get(number, ())]
    if any(one != found[0] for one in found[1:]):
        raise Garbled(f"the answer lists {number:#x} twice, and differently")
    return found[0] if found else None


def _number(key: str) -> int:
    try:
        return int(key, 16) & _NUMBER
    except ValueError:
        raise Garbled("a partition is listed under what is no number") from None


def _pkey(number: int, told: _Pkey) -> Pkey:
    found: dict[str, Port] = {}
    for one in told.guids:
        name = guid(one.guid)
        if name is None:
            raise Garbled(f"a port of {number:#x} has an invalid GUID")
        port = Port(one.membership, one.index0)
        if found.setdefault(name, port) != port:
            raise Garbled(f"the answer lists port {name} of {number:#x} twice, and differently")
    return Pkey(number=number, name=told.partition, ip_over_ib=told.ip_over_ib, ports=found)


def _qos(told: _Qos) -> Qos:
    return Qos(mtu_limit=told.mtu_limit, rate_limit=told.rate_limit, service_level=told.service_level)
