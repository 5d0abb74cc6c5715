"""Shows the records of a region as MAAS does, with exactly the recorded fields: machines, networks and disks.

As in MAAS, a machine's status message and action come from the newest event with at least the level INFO, and are not
part of its state. While a machine is being released, its file systems are not shown, because MAAS has already removed
the file systems of the deployment.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from farrier.model.maas.reading import StatusNumber as Status
from farrier.sim.maas import site
from farrier.sim.maas.events import Level
from farrier.sim.maas.records import Disk, Interface, Link, Machine, Partition, ScriptStatus, SetType, Subnet, Vlan
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
_BLOCK = 4 << 20
# The space that a partition table and its alignment take from a disk.
_TABLE = 6 << 20


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
    interfaces = [interface(shown, each) for each in shown.interfaces]
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
    disks = [disk(shown, each) for each in shown.disks]
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


def vlan(shown: Vlan) -> dict[str, object]:
    return {
        "vid": shown.vid,
        "mtu": shown.mtu,
        "dhcp_on": shown.dhcp_on,
        "external_dhcp": None,
        "relay_vlan": None,
        "fabric": f"fabric-{shown.fabric_id}",
        "space": "undefined",
        "fabric_id": shown.fabric_id,
        "secondary_rack": None,
        "name": shown.name,
        "id": shown.id,
        "primary_rack": shown.primary_rack,
        "resource_uri": f"/MAAS/api/2.0/vlans/{shown.id}/",
    }


def subnet(shown: Subnet) -> dict[str, object]:
    return {
        "name": shown.name,
        "description": "",
        "vlan": vlan(shown.vlan),
        "cidr": shown.cidr,
        "rdns_mode": 2,
        "gateway_ip": shown.gateway_ip,
        "dns_servers": shown.dns_servers,
        "allow_dns": True,
        "allow_proxy": True,
        "active_discovery": False,
        "managed": True,
        "disabled_boot_architectures": [],
        "space": "undefined",
        "id": shown.id,
        "resource_uri": f"/MAAS/api/2.0/subnets/{shown.id}/",
    }


def interface(owner: Machine, shown: Interface) -> dict[str, object]:
    children = [other.name for other in owner.interfaces if shown in other.parents]
    return {
        "system_id": owner.system_id,
        "name": shown.name,
        "type": shown.type,
        "mac_address": shown.mac_address,
        "vlan": vlan(shown.vlan) if shown.vlan else None,
        "links": [_link(link) for link in shown.links],
        "discovered": _discovered(shown),
        "effective_mtu": _mtu(shown),
        "enabled": True,
        "params": shown.params,
        "parents": [parent.name for parent in shown.parents],
        "children": children,
        "tags": shown.tags,
        "link_connected": True,
        "link_speed": shown.link_speed,
        "interface_speed": shown.link_speed,
        "vendor": shown.vendor,
        "product": shown.product,
        "firmware_version": shown.firmware_version,
        "numa_node": 0,
        "sriov_max_vf": 0,
        "id": shown.id,
        "resource_uri": f"/MAAS/api/2.0/nodes/{owner.system_id}/interfaces/{shown.id}/",
    }


def _mtu(shown: Interface) -> object:
    own = shown.params.get("mtu")
    return own if own is not None else (shown.vlan.mtu if shown.vlan else 1500)


def _link(shown: Link) -> dict[str, object]:
    view: dict[str, object] = {"id": shown.id, "mode": shown.mode}
    if shown.ip_address is not None:
        view["ip_address"] = shown.ip_address
    if shown.subnet is not None:
        view["subnet"] = subnet(shown.subnet)
    return view


def _discovered(shown: Interface) -> list[dict[str, object]] | None:
    if shown.discovered is None:
        return None
    seen, address = shown.discovered
    return [{"subnet": subnet(seen), "ip_address": address}]


def usable(size: int) -> int:
    """Return the size of a disk's only partition."""
    return (size - _TABLE) // _BLOCK * _BLOCK


def disk(owner: Machine, shown: Disk) -> dict[str, object]:
    used = shown.partition is not None
    return {
        "id": shown.id,
        "name": shown.name,
        "type": "virtual" if shown.is_virtual else "physical",
        "path": f"/dev/disk/by-dname/{shown.name}",
        "id_path": shown.id_path,
        "model": shown.model,
        "serial": shown.serial,
        "firmware_version": None,
        "size": shown.size,
        "block_size": 512,
        "available_size": 0 if used else usable(shown.size),
        "used_size": usable(shown.size) + _TABLE if used else 0,
        "used_for": "GPT partitioned with 1 partition" if used else "Unused",
        "tags": shown.tags,
        "filesystem": _filesystem("ext4", "/", shown.name) if shown.is_virtual else None,
        "partition_table_type": "GPT" if used else None,
        "partitions": [_partition(owner, shown, shown.partition)] if shown.partition else [],
        "numa_node": 0,
        "storage_pool": None,
        "uuid": None,
        "system_id": owner.system_id,
        "resource_uri": f"/MAAS/api/2.0/nodes/{owner.system_id}/blockdevices/{shown.id}/",
    }


def _partition(owner: Machine, on: Disk, shown: Partition) -> dict[str, object]:
    mounted = owner.status is not Status.RELEASING
    filesystem = _filesystem(shown.fstype, shown.mount_point, shown.fs_uuid)
    used = f"ext4 formatted filesystem mounted at {shown.mount_point}" if shown.mount_point else shown.fstype
    return {
        "id": shown.id,
        "uuid": shown.uuid,
        "size": shown.size,
        "bootable": False,
        "path": f"/dev/disk/by-dname/{on.name}-part2",
        "type": "partition",
        "device_id": on.id,
        "system_id": owner.system_id,
        "tags": [],
        "filesystem": filesystem if mounted else None,
        "used_for": used if mounted else "Unused",
        "resource_uri": f"/MAAS/api/2.0/nodes/{owner.system_id}/blockdevices/{on.id}/partition/{shown.id}",
    }


def _filesystem(fstype: str, mount_point: str | None, uuid: str) -> dict[str, object]:
    return {"fstype": fstype, "label": "root", "uuid": uuid, "mount_point": mount_point, "mount_options": None}
