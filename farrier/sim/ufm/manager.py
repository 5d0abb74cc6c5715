"""The state and the rules of a simulated UFM: partitions with their ports and services, and the limits of each value.

If a request breaks a rule, it changes nothing. The key 0x7fff exists from the beginning and cannot be changed; as in
the real UFM, a partition without ports is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from farrier.sim.faults import Faults

MANAGEMENT = 0x7FFF
_RATES = frozenset({2.5, 5, 10, 14, 20, 25, 30, 40, 56, 60, 80, 100, 112, 120, 168, 200, 300})
_MTUS = frozenset({2, 4})
_HIGHEST_SERVICE_LEVEL = 15
_GUID_DIGITS = 16
_MEMBERSHIPS = ("full", "limited")


class Refused(Exception):
    """An error response of UFM, as text. This is never a bug of the simulation."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


class Port(msgspec.Struct, frozen=True):
    membership: str = "full"
    index0: bool = False


class Partition(msgspec.Struct):
    """A partition key, with the default values of UFM."""

    name: str
    ip_over_ib: bool = True
    mtu_limit: int = 2
    rate_limit: float = 2.5
    service_level: int = 0
    ports: dict[str, Port] = msgspec.field(default_factory=dict)


class Manager:
    """A UFM. `ports` are the ports of its fabric, or None to accept any port. `refuses` contains the keys whose changes
    the UFM refuses, with the reason."""

    def __init__(self, *, username: str = "admin", password: str = "123456", token: str = "a-token-of-ufm") -> None:
        self.username, self.password, self.token = username, password, token
        self.partitions: dict[int, Partition] = {MANAGEMENT: Partition("management")}
        self.ports: set[str] | None = None
        self.refuses: dict[int, str] = {}
        self.faults = Faults()
        self.asynchronous = False
        self.knows_names = True
        self.requests: list[str] = []
        self._later: list[Callable[[], None]] = []

    @property
    def changes(self) -> list[str]:
        """The requested operations except reads."""
        return [op for op in self.requests if op not in ("list", "pkey", "version")]

    def settle(self) -> None:
        """Make the accepted changes that are still pending."""
        later, self._later = self._later, []
        for step in later:
            step()

    def create(self, body: Mapping[str, Any]) -> None:
        number = self._changeable(body)
        if number in self.partitions:
            raise Refused(400, f"pkey {number:#x} exists")
        made = Partition(self._name(number, body), ip_over_ib=_flag(body, "ip_over_ib", default=True))
        _put_qos(made, body)
        self._do(lambda: self.partitions.update({number: made}))

    def add(self, body: Mapping[str, Any]) -> None:
        number = self._changeable(body)
        ports = self._ports(body)

        def do() -> None:
            found = self.partitions.setdefault(number, Partition(self._name(number, body)))
            found.ip_over_ib = _flag(body, "ip_over_ib", default=True)
            found.ports |= ports

        self._do(do)

    def put(self, body: Mapping[str, Any]) -> None:
        number = self._changeable(body)
        ports = self._ports(body)
        old = self.partitions.get(number) or Partition(self._name(number, body))
        name = self._name(number, body) if body.get("partition_name") else old.name
        made = msgspec.structs.replace(old, name=name, ip_over_ib=_flag(body, "ip_over_ib", default=True), ports=ports)
        _put_qos(made, body)
        self._do(lambda: self.partitions.update({number: made}))

    def set_qos(self, body: Mapping[str, Any]) -> None:
        number = self._changeable(body)
        made = msgspec.structs.replace(self._existing(number))
        _put_qos(made, body)
        self._do(lambda: self.partitions.update({number: made}))

    def remove(self, key: str, guids: list[str]) -> None:
        number = self._changeable({"pkey": key})
        found = self._existing(number)
        names = {_guid(guid) for guid in guids}

        def do() -> None:
            for name in names:
                found.ports.pop(name, None)
            if not found.ports:
                self.partitions.pop(number, None)

        self._do(do)

    def delete(self, key: str) -> None:
        number = self._changeable({"pkey": key})
        self._existing(number)
        self._do(lambda: self.partitions.pop(number, None))

    def listed(self, *, guids: bool, qos: bool) -> object:
        """Return the list as the real UFM does: without a parameter only the keys, and never ports and services
        together."""
        if not guids and not qos:
            return [f"{number:#x}" for number in self.partitions]
        return {
            f"{number:#x}": _shown(found, guids=guids, qos=qos and not guids)
            for number, found in self.partitions.items()
        }

    def shown(self, key: str, *, guids: bool, qos: bool) -> object:
        """Return one partition, or `{}` for a key that UFM does not have."""
        found = self.partitions.get(_number(key))
        return {} if found is None else _shown(found, guids=guids, qos=qos)

    def _do(self, step: Callable[[], object]) -> None:
        if self.asynchronous:
            self._later.append(lambda: (step(), None)[1])
        else:
            step()

    def _changeable(self, body: Mapping[str, Any]) -> int:
        number = _number(body.get("pkey"))
        if not 0 < number < MANAGEMENT:
            raise Refused(400, f"pkey {number:#x} is out of range or cannot be changed")
        if number in self.refuses:
            raise Refused(400, self.refuses[number])
        return number

    def _existing(self, number: int) -> Partition:
        found = self.partitions.get(number)
        if found is None:
            raise Refused(404, f"pkey {number:#x} does not exist")
        return found

    def _ports(self, body: Mapping[str, Any]) -> dict[str, Port]:
        guids = body.get("guids")
        if not isinstance(guids, list):
            raise Refused(400, "guids: a list is expected")
        memberships = body.get("memberships") or [body.get("membership", "full")] * len(guids)
        if len(memberships) != len(guids) or any(one not in _MEMBERSHIPS for one in memberships):
            raise Refused(400, "memberships: full or limited is expected for each GUID")
        names = [_guid(guid) for guid in guids]
        unknown = [] if self.ports is None else [name for name in names if name not in self.ports]
        if unknown:
            raise Refused(404, f"GUID {unknown[0]} is not in the fabric")
        index0 = _flag(body, "index0", default=False)
        return {name: Port(membership, index0) for name, membership in zip(names, memberships, strict=True)}

    def _name(self, number: int, body: Mapping[str, Any]) -> str:
        given = body.get("partition_name") if self.knows_names else None
        return str(given or f"api_pkey_{number:#x}")


def _shown(found: Partition, *, guids: bool, qos: bool) -> dict[str, object]:
    shown: dict[str, object] = {"partition": found.name, "ip_over_ib": found.ip_over_ib}
    if qos:
        shown["qos_conf"] = {
            "mtu_limit": found.mtu_limit,
            "rate_limit": found.rate_limit,
            "service_level": found.service_level,
        }
    if guids:
        shown["guids"] = [{"guid": guid, **msgspec.structs.asdict(port)} for guid, port in found.ports.items()]
    return shown


def _put_qos(partition: Partition, body: Mapping[str, Any]) -> None:
    """Set all given values, or none if one is invalid."""
    mtu = body.get("mtu_limit", partition.mtu_limit)
    rate = body.get("rate_limit", partition.rate_limit)
    level = body.get("service_level", partition.service_level)
    if mtu not in _MTUS:
        raise Refused(400, "mtu_limit: 2 or 4 is expected")
    if rate not in _RATES:
        raise Refused(400, f"rate_limit: one of {sorted(_RATES)} is expected")
    if not isinstance(level, int) or not 0 <= level <= _HIGHEST_SERVICE_LEVEL:
        raise Refused(400, "service_level: 0 to 15 is expected")
    partition.mtu_limit, partition.rate_limit, partition.service_level = mtu, rate, level


def _flag(body: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = body.get(name, default)
    if not isinstance(value, bool):
        raise Refused(400, f"{name}: true or false is expected")
    return value


def _number(key: object) -> int:
    try:
        return int(str(key), 16)
    except ValueError:
        raise Refused(400, "pkey: a hexadecimal number is expected") from None


def _guid(given: object) -> str:
    name = str(given).lower().removeprefix("0x")
    if len(name) != _GUID_DIGITS or any(digit not in "0123456789abcdef" for digit in name):
        raise Refused(400, "guid: 16 hexadecimal digits are expected")
    return name
