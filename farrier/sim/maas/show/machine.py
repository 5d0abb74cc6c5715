"""Shows a machine as MAAS does, with exactly the recorded fields, and its power parameters.

Every response with a machine uses this module, which only reads. As in MAAS, status message and action come from the
newest event with at least the level INFO, and are not part of the machine's state.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from farrier.sim.maas import site
from farrier.sim.maas.events import Level
from farrier.sim.maas.records import Machine, ScriptStatus, SetType
from farrier.sim.maas.show import network, storage

if TYPE_CHECKING:
    from farrier.sim.maas.region import Region

HARDWARE_FIELDS = (
    "system_vendor",
    "system_product",
    "system_family",
    "system_version",
    "system_sku",
    "system_serial",
    "cpu_model",
    "mainboard_vendor",
    "mainboard_product",
    "mainboard_serial",
    "mainboard_version",
    "mainboard_firmware_vendor",
    "mainboard_firmware_date",
    "mainboard_firmware_version",
    "chassis_vendor",
    "chassis_type",
    "chassis_serial",
    "chassis_version",
)
_TESTED = ("cpu_test", "memory_test", "network_test", "storage_test", "interface_test", "other_test", "testing")


def machine(region: Region, shown: Machine) -> dict[str, object]:
    newest = region.events.newest(shown.system_id, level=Level.INFO)
    message = f"{newest.type} - {newest.description}".removesuffix(" - ") if newest else None
    return {
        "system_id": shown.system_id,
        "hostname": shown.hostname,
        "fqdn": f"{shown.hostname}.{shown.domain}",
        "description": shown.description,
        "owner": shown.owner,
        "owner_data": shown.annotations,
        "workload_annotations": shown.annotations,
        "locked": shown.locked,
        "status": int(shown.status),
        "status_name": shown.status.label,
        "status_message": message,
        "status_action": newest.action if newest else None,
        "error_description": shown.error_description,
        "power_type": shown.power_type,
        "power_state": shown.power_state,
        "netboot": shown.netboot,
        "architecture": shown.architecture,
        "resource_uri": f"/MAAS/api/2.0/machines/{shown.system_id}/",
        **_system(shown),
        **_scripts(shown),
        **_place(region, shown),
        **_network(shown),
        **_storage(shown),
        **_hardware(shown),
        **_constants(),
    }


def power_parameters(shown: Machine) -> dict[str, object]:
    names = ("power_address", "power_user", "power_pass", "node_id")
    return {name: shown.power_parameters.get(name, "") for name in names} if shown.power_type == "redfish" else {}


def stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _system(shown: Machine) -> dict[str, object]:
    synced, interval = shown.last_sync, shown.sync_interval
    following = synced + timedelta(seconds=interval) if synced and interval else None
    return {
        "osystem": shown.osystem,
        "distro_series": shown.distro_series,
        "hwe_kernel": shown.hwe_kernel,
        "min_hwe_kernel": "",
        "enable_hw_sync": shown.enable_hw_sync,
        "sync_interval": interval,
        "last_sync": stamp(synced) if synced else None,
        "next_sync": stamp(following) if following else None,
        "tag_names": shown.tag_names,
    }


def _scripts(shown: Machine) -> dict[str, object]:
    sets = {kind: shown.newest_set(kind) for kind in SetType}
    commissioning = sets[SetType.COMMISSIONING]
    status = commissioning.status if commissioning else ScriptStatus.NONE
    view: dict[str, object] = {
        f"current_{kind.name.lower()}_result_id": kept.id if kept else None for kind, kept in sets.items()
    }
    view |= {"commissioning_status": int(status), "commissioning_status_name": status.label}
    testing = sets[SetType.TESTING]
    for name in _TESTED:
        tested = testing.status if testing and name == "testing" else ScriptStatus.NONE
        view |= {f"{name}_status": int(tested), f"{name}_status_name": tested.label}
    return view


def _place(region: Region, shown: Machine) -> dict[str, object]:
    return {
        "domain": site.domain(shown.domain),
        "zone": region.site.zone(shown.zone),
        "pool": region.site.pool(shown.pool),
    }


def _network(shown: Machine) -> dict[str, object]:
    interfaces = [network.interface(shown, interface) for interface in shown.interfaces]
    boot = shown.boot_interface()
    links = [link for interface in shown.interfaces for link in interface.links]
    claimed = [link.ip_address for link in links if link.ip_address]
    seen = [interface.discovered[1] for interface in shown.interfaces if interface.discovered]
    gateway = next((link.subnet.gateway_ip for link in links if link.subnet), None)
    return {
        "interface_set": interfaces,
        "boot_interface": interfaces[shown.interfaces.index(boot)] if boot else None,
        "ip_addresses": claimed or seen,
        "default_gateways": {
            "ipv4": {"gateway_ip": gateway, "link_id": None},
            "ipv6": {"gateway_ip": None, "link_id": None},
        },
    }


def _storage(shown: Machine) -> dict[str, object]:
    disks = [storage.disk(shown, disk) for disk in shown.disks]
    boot = shown.boot_disk()
    return {
        "blockdevice_set": disks,
        "physicalblockdevice_set": [disk for disk in disks if disk["type"] == "physical"],
        "virtualblockdevice_set": [disk for disk in disks if disk["type"] == "virtual"],
        "boot_disk": disks[shown.disks.index(boot)] if boot else None,
        "storage": sum(disk.size for disk in shown.disks if not disk.is_virtual) / 1_000_000,
    }


def _hardware(shown: Machine) -> dict[str, object]:
    """Return what commissioning found. `hardware_uuid` and `hardware_info` are fields of maasserver/api/machines.py
    (DISPLAYED_MACHINE_FIELDS, hardware_info). In all recorded responses, the UUID is null and the serial number is
    "Unknown", because the recorded machine reported neither."""
    numa = {"index": 0, "memory": shown.memory, "cores": list(range(shown.cpu_count)), "hugepages_set": []}
    return {
        "cpu_count": shown.cpu_count,
        "memory": shown.memory,
        "numanode_set": [numa],
        "hardware_uuid": shown.hardware_uuid,
        "hardware_info": {name: shown.hardware_info.get(name, "Unknown") for name in HARDWARE_FIELDS},
    }


def _constants() -> dict[str, object]:
    lists = ("bcaches", "cache_sets", "raids", "special_filesystems", "volume_groups")
    nothing = ("address_ttl", "bios_boot_method", "parent", "pod", "swap_size", "virtualmachine_id")
    return {
        **{name: [] for name in lists},
        **dict.fromkeys(nothing),
        "cpu_speed": 0,
        "disable_ipv4": False,
        "enable_kernel_crash_dump": False,
        "ephemeral_deploy": False,
        "is_dpu": False,
        "node_type": 0,
        "node_type_name": "Machine",
    }
