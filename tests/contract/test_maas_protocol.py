"""The protocol of a region: keys, nonces, clocks, paths, bodies, filters, links, locks and events.

Each behaviour is one of the real region that a client has to handle; the same tests run on the simulated and on a live
region. Tests that need hardware are skipped on a live region without it: see `tests.support.maas_site`.
"""

from __future__ import annotations

import base64

import pytest

from farrier.model.maas.reading import Machine
from tests.support.maas import POWER
from tests.support.maas_region import signed
from tests.support.maas_site import Site

LIST = "machines/?id=zzzzzz"  # a list without a filter would be too long on a live region


def link_path(machine: Machine) -> str:
    assert machine.boot_interface is not None
    return f"nodes/{machine.system_id}/interfaces/{machine.boot_interface.id}/?op=link_subnet"


def mac_of(machine: Machine) -> str:
    assert machine.boot_interface is not None and machine.boot_interface.mac_address is not None
    return machine.boot_interface.mac_address


# --- keys, nonces, clocks


async def test_a_nonce_serves_one_request(site: Site) -> None:
    header = signed(site.key, nonce="once")
    first = await site.bare(LIST, header)
    again = await site.bare(LIST, header)
    assert first.status_code in {200, 401}, "the nonce was used in an earlier run"
    assert (again.status_code, again.text) == (401, "Authorization Error: 'Nonce already used: once'")
    assert again.headers["www-authenticate"] == 'OAuth realm="OAuth"'


async def test_a_timestamp_is_refused_when_it_is_old_and_taken_when_it_is_early(site: Site) -> None:
    late = await site.bare(LIST, signed(site.key, age=400))
    assert late.status_code == 401
    assert "has a greater difference than threshold 300" in late.text
    assert (await site.bare(LIST, signed(site.key, age=-4000))).status_code == 200


@pytest.mark.parametrize("wrong", ["secret", "token", "consumer"])
async def test_an_invalid_key_is_refused_in_plain_text_with_the_type_html(site: Site, wrong: str) -> None:
    consumer, token, secret = site.key.split(":")
    key, told = {
        "secret": (
            f"{consumer}:{token}:{secret[::-1]}",
            f"'Invalid signature. Expected signature base string: &{secret}'",
        ),
        "token": (f"{consumer}:{token[::-1]}:{secret}", f"'Invalid access token: {token[::-1]}'"),
        "consumer": (f"{consumer[::-1]}:{token}:{secret}", "Invalid API key."),
    }[wrong]
    answer = await site.bare(LIST, signed(key))
    assert (answer.status_code, answer.text) == (401, f"Authorization Error: {told}")
    assert answer.headers["www-authenticate"] == 'OAuth realm="OAuth"'
    assert answer.headers["content-type"].startswith("text/html")


async def test_a_scheme_in_small_letters_is_not_read(site: Site) -> None:
    answer = await site.bare(LIST, signed(site.key).replace("OAuth ", "oauth "))
    assert (answer.status_code, answer.text) == (400, "'Bad Request: Parameter not found: oauth_consumer_key'")


@pytest.mark.parametrize("lacks", ["header", "scheme", "nonce"])
async def test_with_an_incomplete_key_a_list_is_400_and_all_else_is_401(site: Site, lacks: str) -> None:
    header = {"header": None, "scheme": "Basic eDp5", "nonce": signed(site.key).replace("oauth_nonce", "nonce")}[lacks]
    listed = await site.bare(LIST, header)
    assert (listed.status_code, listed.text) == (400, "Unrecognised signature: method=GET op=None")
    for path in ("users/?op=whoami", "machines/zzzzzz/", "subnets/", "events/?op=query", "nodes/zzzzzz/interfaces/"):
        answer = await site.bare(path, header)
        assert (answer.status_code, answer.text) == (401, "Forbidden"), path
        assert "www-authenticate" not in answer.headers


async def test_the_version_is_readable_without_a_key(site: Site) -> None:
    assert (await site.bare("version/", None)).json()["version"].startswith("3.")


# --- paths and operations


async def test_a_path_without_its_last_slash_is_unknown(site: Site) -> None:
    answer = await site.send("GET", "machines")
    assert (answer.status_code, answer.text) == (404, "Unknown API endpoint: /MAAS/api/2.0/machines.")


async def test_an_operation_that_is_not_known_is_named(site: Site) -> None:
    answer = await site.send("POST", "machines/?op=nope")
    assert (answer.status_code, answer.text) == (400, "Unrecognised signature: method=POST op=nope")
    for method, path in (("GET", "machines/zzzzzz/?op=deploy"), ("POST", "machines/zzzzzz/?op=nope")):
        answer = await site.send(method, path)
        assert answer.status_code == 400 and answer.text.startswith("Unrecognised signature"), "also if it is absent"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("version/", "GET"),
        ("machines/", "POST, GET"),
        ("machines/zzzzzz/", "PUT, DELETE, POST, GET"),
        ("nodes/zzzzzz/interfaces/", "POST, GET"),
        ("nodes/zzzzzz/results/", "GET"),
        ("events/", "GET"),
    ],
)
async def test_an_unknown_method_of_a_path_is_refused_with_the_known_methods(
    site: Site, path: str, methods: str
) -> None:
    answer = await site.send("PATCH", path)
    assert (answer.status_code, answer.text) == (405, "")
    assert set(answer.headers["allow"].split(", ")) == set(methods.split(", "))


async def test_an_unknown_path_is_404_without_a_key_and_a_path_beside_the_api_redirects(site: Site) -> None:
    unknown = await site.bare("nope/", None)
    assert (unknown.status_code, unknown.text) == (404, "Unknown API endpoint: /MAAS/api/2.0/nope/.")
    beside = await site.bare("../3.0/machines/", None)
    assert beside.status_code == 302 and beside.headers["location"].startswith("/MAAS/?next=")


@pytest.mark.parametrize(
    ("method", "path", "missed"),
    [
        ("GET", "machines/zzzzzz/", "Machine"),
        ("POST", "machines/zzzzzz/?op=deploy", "Machine"),
        ("POST", "nodes/zzzzzz/interfaces/?op=create_bond", "Machine"),
        ("POST", "nodes/zzzzzz/interfaces/1/?op=link_subnet", "Interface"),
        ("PUT", "nodes/zzzzzz/interfaces/1/", "Interface"),
        ("POST", "nodes/zzzzzz/blockdevices/1/?op=set_boot_disk", "BlockDevice"),
        ("GET", "nodes/zzzzzz/results/?type=installation", "Node"),
    ],
)
async def test_the_404_of_a_missing_machine_differs_by_path(site: Site, method: str, path: str, missed: str) -> None:
    answer = await site.send(method, path)
    assert (answer.status_code, answer.text) == (404, f"No {missed} matches the given query.")


# --- bodies


async def test_a_json_body_loses_the_parameters_of_a_deployment_silently(site: Site) -> None:
    machine = await site.commissioned()
    form = {"distro_series": "bogus", "user_data": base64.b64encode(b"x").decode()}
    answer = await site.send("POST", f"machines/{machine.system_id}/?op=deploy", json=form)
    assert (answer.status_code, answer.json()["distro_series"]) == (200, "noble")


# --- lists


async def test_lists_have_filters_that_repeat_but_no_pages(site: Site) -> None:
    first, second = await site.new(), await site.new()
    both = f"id={first.system_id}&id={second.system_id}"
    for query, found in (
        (both, {first.system_id, second.system_id}),
        (f"hostname={first.hostname}", {first.system_id}),
        (f"mac_address={mac_of(second)}", {second.system_id}),
        ("hostname=farrier-test-none", set()),
    ):
        listed = (await site.send("GET", f"machines/?{query}")).json()
        assert {one["system_id"] for one in listed} == found, query
    refused = await site.send("GET", "machines/?limit=1")
    assert (refused.status_code, refused.json()) == (400, {"limit": ["No such constraint."]})


async def test_host_names_and_mac_addresses_are_unique(site: Site) -> None:
    machine = await site.new()
    form = {
        "hostname": machine.hostname,
        "mac_addresses": mac_of(machine),
        "architecture": "amd64/generic",
        "power_type": "redfish",
        "power_parameters_power_address": "10.0.1.1",
        "power_parameters_power_user": "root",
        "power_parameters_power_pass": "x",
        "commission": "false",
    }
    answer = await site.send("POST", "machines/", form)
    assert answer.status_code == 400
    assert answer.json()["hostname"] == ["Node with this Hostname already exists."]
    told = f"MAC address {mac_of(machine)} already in use on {machine.hostname}."
    assert answer.json()["mac_addresses"] == [told]
    assert len((await site.send("GET", f"machines/?hostname={machine.hostname}")).json()) == 1


async def test_a_bmc_address_with_a_scheme_is_an_error_of_the_server(site: Site) -> None:
    machine = await site.new()
    power = {
        "power_type": "redfish",
        "power_parameters_power_address": "https://10.0.0.1",
        "power_parameters_power_user": POWER.username,
        "power_parameters_power_pass": POWER.password,
    }
    assert (await site.send("PUT", f"machines/{machine.system_id}/", power)).status_code == 500


# --- locks


async def test_a_locked_machine_can_be_read_and_unlocked_only(site: Site) -> None:
    machine = await site.new(deployed=True)
    path = f"machines/{machine.system_id}/"
    assert (await site.send("POST", f"{path}?op=lock")).json()["locked"] is True
    for op in ("release", "power_off", "deploy"):
        answer = await site.send("POST", f"{path}?op={op}")
        assert (answer.status_code, answer.text) == (403, ""), op
    assert (await site.send("PUT", path, {"description": "x"})).status_code == 403
    assert (await site.send("DELETE", path)).status_code == 403
    assert (await site.send("GET", path)).json()["locked"] is True
    again = await site.send("POST", f"{path}?op=lock")
    assert (again.status_code, again.text) == (409, "Machine is already locked")
    assert (await site.send("POST", f"{path}?op=unlock")).json()["locked"] is False
    site.forgotten(machine.system_id)
    assert (await site.send("DELETE", path)).status_code == 204
    assert (await site.send("DELETE", path)).status_code == 404


# --- interfaces


async def test_an_auto_link_repeats_unless_forced(site: Site) -> None:
    machine = await site.new()
    form = {"mode": "AUTO", "subnet": str((await site.client.subnets())[0].id)}
    await site.send("POST", link_path(machine), {**form, "force": "true"})
    twice = await site.send("POST", link_path(machine), form)
    assert [link["mode"] for link in twice.json()["links"]] == ["auto", "auto"]
    once = await site.send("POST", link_path(machine), {**form, "force": "true"})
    assert [link["mode"] for link in once.json()["links"]] == ["auto"]


async def test_a_static_address_in_use_is_not_found(site: Site) -> None:
    machine = await site.new()
    subnet = (await site.client.subnets())[0]
    form = {"mode": "STATIC", "subnet": str(subnet.id), "ip_address": await site.free_address(5)}
    first = await site.send("POST", link_path(machine), {**form, "force": "true"})
    assert first.status_code == 200, first.text
    again = await site.send("POST", link_path(machine), form)
    assert (again.status_code, again.text) == (404, "IP address is already in use.")
    wrong = await site.send("POST", link_path(machine).replace("link_subnet", "unlink_subnet"), {"id": "999999"})
    assert wrong.status_code == 400


async def test_a_bond_is_made_once_and_keeps_its_parents(site: Site) -> None:
    machine = await site.new(ports=2)
    parents = [str(port.id) for port in (await site.client.machine(machine.system_id)).interface_set]
    path = f"nodes/{machine.system_id}/interfaces/"
    form = {"name": "bond0", "parents": parents, "bond_mode": "802.3ad", "mtu": "9000"}
    bond = (await site.send("POST", f"{path}?op=create_bond", form)).json()
    assert (bond["type"], bond["effective_mtu"], len(bond["parents"])) == ("bond", 9000, 2)
    again = await site.send("POST", f"{path}?op=create_bond", {**form, "name": "bond1"})
    assert again.status_code == 400 and "already in-use" in again.json()["parents"][0]


# --- events


async def test_events_follow_a_cursor_without_gaps(site: Site) -> None:
    machine = await site.new(deployed=True)
    for op in ("lock", "unlock") * 4:
        await site.send("POST", f"machines/{machine.system_id}/?op={op}")
    of_it = f"events/?op=query&level=DEBUG&id={machine.system_id}"
    everything = [event["id"] for event in reversed((await site.send("GET", f"{of_it}&limit=1000")).json()["events"])]
    assert len(everything) >= 8
    seen = [0]
    while page := (await site.send("GET", f"{of_it}&after={seen[-1]}&limit=3")).json()["events"]:
        seen += [event["id"] for event in reversed(page)]
    assert seen[1:] == everything
    assert {event["level"] for event in (await site.send("GET", "events/?op=query&limit=9")).json()["events"]} <= {
        "INFO",
        "WARNING",
        "ERROR",
        "CRITICAL",
    }
    assert (await site.send("GET", "events/?op=query&limit=1001")).status_code == 400
    assert (await site.send("GET", "events/?op=query&id=zzzzzz")).json()["events"] == []


async def test_a_comment_is_found_in_the_events(site: Site) -> None:
    machine = await site.commissioned()
    deployed = await site.send("POST", f"machines/{machine.system_id}/?op=deploy", {"comment": "w7/1"})
    assert deployed.status_code == 200, deployed.text
    events = (await site.send("GET", f"events/?op=query&level=DEBUG&id={machine.system_id}")).json()["events"]
    who = (await site.client.whoami()).username
    begun = {event["description"] for event in events if event["type"] == "User starting deployment"}
    assert f"({who}) - w7/1" in begun
