"""The interfaces of a system: which of their addresses identify a machine."""

from __future__ import annotations

import pytest

from farrier.model.machine.bmc import BmcTarget
from tests.support.bmc import CREDENTIAL, INTERFACES, MANAGER, Answer, FakeBmc, Page, connect, members


async def macs_of(bmc: FakeBmc) -> tuple[str, ...]:
    async with connect(bmc.ca_file) as client:
        return (await client.verify(BmcTarget(address=bmc.url, credential=CREDENTIAL), macs=True)).macs


@pytest.mark.parametrize("answer", [Page(403), Page(404), Page(500), Page(200, b"no")])
@pytest.mark.parametrize("path", [INTERFACES, f"{INTERFACES}/2"])
async def test_a_verification_succeeds_without_unreadable_interfaces(bmc: FakeBmc, path: str, answer: Answer) -> None:
    bmc.answer(path, answer)
    assert await macs_of(bmc) == ()


# NVIDIA/libredfish, tests/mockups/supermicro/…/Systems/1/EthernetInterfaces/ToManager: the machine's end of its USB
# connection to the BMC, which has this address in all machines. Lenovo's BMCs list the same interface.
TO_MANAGER = {
    "Id": "ToManager",
    "PermanentMACAddress": "BE:3A:F2:B6:05:9F",
    "MACAddress": "BE:3A:F2:B6:05:9F",
    "Links": {"HostInterface": {"@odata.id": f"{MANAGER}/HostInterfaces/1"}},
}


async def test_the_connection_between_host_and_bmc_does_not_identify_a_machine(bmc: FakeBmc) -> None:
    bmc.answer(INTERFACES, members(f"{INTERFACES}/1", f"{INTERFACES}/ToManager"))
    bmc.answer(f"{INTERFACES}/ToManager", TO_MANAGER)
    assert await macs_of(bmc) == ("aa:bb:cc:00:00:02",)


@pytest.mark.parametrize(("listed", "read"), [(24, 24), (65, 0)])
async def test_all_interfaces_are_read_or_none(bmc: FakeBmc, listed: int, read: int) -> None:
    """A part of the addresses could lack the registered ones, and the machine would look like another one."""
    bmc.answer(INTERFACES, members(*(f"{INTERFACES}/{number}" for number in range(listed))))
    for number in range(listed):
        bmc.answer(f"{INTERFACES}/{number}", {"MACAddress": f"aa:bb:cc:00:00:{number:02x}"})
    assert len(await macs_of(bmc)) == read
