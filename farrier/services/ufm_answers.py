"""What a successful answer of UFM says: the structs of the model, or `Garbled`. Pure.

Used by the UFM client. Fields that we do not read may be anything. A list that contradicts itself is garbled: nothing
is decided on the word of a UFM that is confused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from farrier.model.ufm import Membership, Pkey, Port, Qos, guid
from farrier.services.ufm_failure import Answer, Garbled

_T = TypeVar("_T")
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


def ports(answer: Answer) -> Mapping[int, Pkey]:
    """Every partition by its number, with its ports."""
    return {number: _pkey(number, told) for number, told in _listed(answer).items()}


def qos(answer: Answer) -> Mapping[int, Qos]:
    """What the services of each partition may use, by its number."""
    return {number: _qos(told.qos_conf) for number, told in _listed(answer).items() if told.qos_conf is not None}


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
    if answer.is_page:
        raise Garbled("a page came instead of JSON")
    try:
        return msgspec.json.decode(answer.body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # Its reasons name places and types, never values.
        raise Garbled(f"the answer is not what UFM answers: {error}") from None


def _listed(answer: Answer) -> dict[int, _Pkey]:
    found: dict[int, _Pkey] = {}
    for key, told in _shaped(answer, dict[str, _Pkey]).items():
        number = _number(key)
        if found.setdefault(number, told) != told:
            raise Garbled(f"the answer lists {number:#x} twice, and differently")
    return found


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
            raise Garbled(f"a port of {number:#x} has a GUID that is none")
        port = Port(one.membership, one.index0)
        if found.setdefault(name, port) != port:
            raise Garbled(f"the answer lists port {name} of {number:#x} twice, and differently")
    return Pkey(number=number, name=told.partition, ip_over_ib=told.ip_over_ib, ports=found)


def _qos(told: _Qos) -> Qos:
    return Qos(mtu_limit=told.mtu_limit, rate_limit=told.rate_limit, service_level=told.service_level)
