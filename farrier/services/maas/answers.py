"""Pure functions that decode a successful response of MAAS to structs of the model, or raise `Garbled`.

Fields that farrier does not read may have any value. If a list contradicts itself, or the response is about another
machine than the requested machine, farrier raises `Garbled` and does not use the response.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import msgspec

from farrier.model.maas.reading import Event, Machine, Vlan
from farrier.services.http.messages import Garbled, HttpResponse, understood

_T = TypeVar("_T")


class _Events(msgspec.Struct, frozen=True):
    events: tuple[Event, ...]


class _Fabric(msgspec.Struct, frozen=True):
    vlans: tuple[Vlan, ...]


class Version(msgspec.Struct, frozen=True):
    version: str


def shaped(shape: type[_T]) -> Callable[[HttpResponse], _T]:
    """Return the decoder of a JSON body of this shape."""
    return lambda answer: understood(answer, shape, service="MAAS")


def machine(system_id: str, answer: HttpResponse) -> Machine:
    """Return the requested machine from the response."""
    found = understood(answer, Machine, service="MAAS")
    if found.system_id != system_id:
        raise Garbled(f"the response describes machine {found.system_id[:64]!r}, not {system_id}")
    return found


def machines(ids: Collection[str] | None, answer: HttpResponse) -> dict[str, Machine]:
    """Return each machine once, by its ID. Raises `Garbled` for a machine that is not in `ids`; if `ids` is None, any
    machine is accepted."""
    found: dict[str, Machine] = {}
    for one in shaped(tuple[Machine, ...])(answer):
        if ids is not None and one.system_id not in ids:
            raise Garbled(f"the response lists machine {one.system_id[:64]!r}, which was not requested")
        if found.setdefault(one.system_id, one) != one:
            raise Garbled(f"the response lists machine {one.system_id[:64]!r} twice, with different data")
    return found


def events(answer: HttpResponse) -> tuple[Event, ...]:
    """Return each event once, oldest first."""
    by_id = {event.id: event for event in shaped(_Events)(answer).events}
    return tuple(by_id[number] for number in sorted(by_id))


def vlans(answer: HttpResponse) -> tuple[Vlan, ...]:
    """Return the VLANs of all fabrics."""
    return tuple(vlan for fabric in shaped(tuple[_Fabric, ...])(answer) for vlan in fabric.vlans)


def done(answer: HttpResponse) -> None:
    """Check that MAAS accepted a change. Only the form of the response is checked, because its content is from before
    the change."""
    if "json" in answer.content_type.lower():
        shaped(msgspec.Raw)(answer)
    elif answer.is_page:
        raise Garbled("the response is a web page, not a response of MAAS's API")
