"""Pure functions for the links of a BMC that are not only a path: absolute URLs, and redirects.

`bmc_answers` uses these functions. farrier uses only the path of such a link, and sends every request to the host that
it has checked, so a link cannot lead farrier to another host. A link to another host stays as it is, and is not
followed.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

import msgspec
from yarl import URL

from farrier.services.bmc.address import number

# The fields whose text is a link.
_LINKS = frozenset({"@odata.id", "target", "@Redfish.ActionInfo"})
_NEXT = "@odata.nextLink"


class Own(msgspec.Struct, frozen=True):
    """A BMC's own URL, and the addresses of its host."""

    url: URL
    addresses: tuple[str, ...] = ()

    def is_host(self, url: URL) -> bool:
        """Return whether a URL names this host, by its name or by one of its addresses."""
        ours = {_spelled(self.url.host), *map(_spelled, self.addresses)}
        return url.user is None and url.password is None and _spelled(url.host) in ours


def path_of(link: str, own: Own) -> str | None:
    """Return the path with the query of an absolute URL on the BMC's own host; None for any other text. A BMC behind a
    proxy or address translation knows neither the port nor the scheme of its URL, so both may differ."""
    if not link.startswith(("http://", "https://", "//", "HTTP://", "HTTPS://")):
        return None
    try:
        url = own.url.join(URL(link))
        is_own = own.is_host(url)
    except ValueError:
        return None
    return url.raw_path_qs if is_own else None


def moved_to(location: str, path: str, own: Own) -> str | None:
    """Return the path to which a redirect of `path` leads, if it leads to another path of the same origin."""
    try:
        came = own.url.join(URL(path))
        url = came.join(URL(location))
        same_port = url.scheme == own.url.scheme and url.port == own.url.port
        is_same = same_port and own.is_host(url)
    except ValueError:
        return None
    return url.raw_path_qs if is_same and url.raw_path_qs != came.raw_path_qs else None


def with_paths(resource: Any, own: Own) -> Any:
    """Replace the absolute URLs on the BMC's own host in all links of a decoded resource by their paths."""
    left = [resource]
    while left:
        place = left.pop()
        if isinstance(place, MutableMapping):
            for field, value in place.items():
                if isinstance(value, str) and (field in _LINKS or field.endswith(_NEXT)):
                    place[field] = path_of(value, own) or value
                elif isinstance(value, Mapping | list):
                    left.append(value)
        elif isinstance(place, list):
            left += [one for one in place if isinstance(one, Mapping | list)]
    return resource


def _spelled(host: str | None) -> str:
    name = (host or "").rstrip(".").lower()
    return str(number(name) or name)
