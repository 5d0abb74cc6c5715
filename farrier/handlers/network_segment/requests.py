"""Accepts or refuses the intents of a segment in use: `update`, which changes the segment, and `delete`. Pure."""

from __future__ import annotations

from farrier.handlers.network_segment.prefixes import (
    LEAST_MTU_OF_IPV6,
    overlap,
    parse_address,
    parse_gateways,
    parse_prefix,
    room,
)
from farrier.handlers.resource.requests import params_of
from farrier.model.kinds.resource import Pending
from farrier.model.network.segment import MOST_PREFIXES, DeleteSegment, NetworkSegment, UpdateSegment
from farrier.model.plural import counted

_ANEW = (
    "create a segment with the new value, move the users of this segment to it, and delete this segment with "
    "drain: true"
)
# Changes that clients often request, and the alternative to each.
_FIXED = {
    "site": "a segment cannot change its site; create a segment at the other site",
    "prefixes": f"prefixes can only be added, with add_prefixes; to remove a prefix, {_ANEW}",
    "vlan": f"the users of the segment depend on the VLAN tag; {_ANEW}",
    "vni": f"the users of the segment depend on the VNI; {_ANEW}",
}


def after(segment: NetworkSegment, request: Pending) -> NetworkSegment:
    """Return the segment in use after an intent. Raises ValueError or RefusedByModel with the reason for a refusal."""
    if request.action == "update":
        return _updated(segment, request, params_of(request, UpdateSegment))
    _check_delete(segment, params_of(request, DeleteSegment))
    return segment


def _check_delete(segment: NetworkSegment, asked: DeleteSegment) -> None:
    if segment.allocated and not asked.drain:
        raise ValueError(
            f"the segment has {counted(segment.allocated, 'allocated address')}, of {users_of(segment)}; release these "
            "addresses first, or use drain: true; farrier then allocates no more addresses, and waits until all "
            "addresses are released"
        )


def users_of(segment: NetworkSegment) -> str:
    """Return a text with the owners of the first addresses, and with the number of further addresses."""
    more = segment.allocated - len(segment.users)
    named = ", ".join(dict.fromkeys(segment.users))
    return f"{named} and {more} more" if more > 0 else named


def _updated(segment: NetworkSegment, request: Pending, asked: UpdateSegment) -> NetworkSegment:
    """Return the segment after the requested update. Raises ValueError with the reason for a refusal."""
    for field, instead in _FIXED.items():
        if getattr(asked, field) is not None:
            raise ValueError(f"{field} cannot change while a segment is in use: {instead}")
    if asked.gateways and not asked.add_prefixes:
        raise ValueError("a gateway can be set only for a prefix in add_prefixes; an existing prefix keeps its gateway")
    to = segment.but(mtu=asked.mtu or segment.mtu)
    if asked.add_prefixes:
        to = _with_prefixes(to, asked.add_prefixes, asked.gateways or (), segment.clashes.get(str(request.id), ()))
    six = any(":" in prefix for prefix in to.prefixes)
    if six and to.mtu < LEAST_MTU_OF_IPV6:
        raise ValueError(f"an MTU of {to.mtu} is too small for IPv6, which requires {LEAST_MTU_OF_IPV6}")
    return to


def _with_prefixes(
    segment: NetworkSegment, texts: tuple[str, ...], gateways: tuple[str, ...], clashes: tuple[str, ...]
) -> NetworkSegment:
    """Return the segment with its new prefixes. A repeated intent gets the same answer."""
    own = tuple(parse_prefix(text) for text in segment.prefixes)
    asked = tuple(dict.fromkeys(parse_prefix(text) for text in texts))
    ways = parse_gateways(gateways, asked)
    added = tuple(network for network in asked if network not in own)
    known = {parse_address(text) for text in segment.gateways}
    late = [way for way in ways if way not in known and not any(way in network for network in added)]
    if late:
        raise ValueError(f"gateway {late[0]} is in an existing prefix; an existing prefix keeps its gateway")
    overlapping = overlap(added, own)
    if overlapping or clashes:
        raise ValueError("; ".join((overlapping,) if overlapping else clashes))
    if len(own) + len(added) > MOST_PREFIXES:
        raise ValueError(
            f"a segment has at most {MOST_PREFIXES} prefixes; this segment would have {len(own) + len(added)}"
        )
    for network in added:
        if room(network, ways, segment.reserved_first, segment.reserved_last) <= 0:
            raise ValueError(f"prefix {network} has no allocatable address, because all its addresses are reserved")
    return segment.but(
        prefixes=(*segment.prefixes, *map(str, added)),
        gateways=(*segment.gateways, *(str(way) for way in ways if way not in known)),
    )
