"""How MAAS parses requests: flags, words, numbers, choices, lists and unknown fields.

Each test checks a behaviour that MAAS's source shows and a real region confirmed. The same tests run on the simulated
region. The table in `farrier.sim.maas.http.forms` is complete: every field that an operation reads, with its type.
"""

from __future__ import annotations

import re

import pytest

from farrier.model.maas import changes
from farrier.model.maas.changes import Commission
from farrier.model.maas.reading import Machine
from farrier.services.maas.requests import of_change
from farrier.sim.maas.http.forms import FIELDS, Data, Field, Reader, flag
from tests.support.maas_site import Site


def boot_path(machine: Machine) -> str:
    assert machine.boot_interface is not None
    return f"nodes/{machine.system_id}/interfaces/{machine.boot_interface.id}/"


async def a_subnet(site: Site) -> str:
    return str((await site.client.subnets())[0].id)


# --- requests that farrier sends


@pytest.mark.parametrize("value", [True, False])
def test_every_flag_of_every_change_is_sent_as_a_word(*, value: bool) -> None:
    asked: list[changes.Change] = [
        Commission(skip_networking=value, skip_storage=value, skip_bmc_config=value, enable_ssh=value),
        changes.Deploy(user_data="", comment="c", enable_hw_sync=value),
        changes.Release(comment="c", erase=value, quick_erase=value, secure_erase=value),
        changes.UpdateMachine(enable_hw_sync=value),
    ]
    for change in asked:
        form = dict(of_change("abc123", change, agent_name="farrier").form)
        sent = {name: form[name] for name, is_flag in vars_of(change).items() if is_flag and name in form}
        assert set(sent.values()) <= {str(value).lower()}, type(change)


def vars_of(change: changes.Change) -> dict[str, bool]:
    return {name: isinstance(getattr(change, name), bool) for name in change.__struct_fields__}


async def test_a_machine_that_farrier_commissions_has_its_disks_afterwards(site: Site) -> None:
    machine = await site.commissioned()
    disks = (await site.send("GET", f"machines/{machine.system_id}/")).json()["blockdevice_set"]
    assert disks and any(partition["filesystem"] for disk in disks for partition in disk["partitions"])


# --- a form's checkbox: absent, empty and `false` are false, any other text is true


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        *((sent, False) for sent in ("false", "False", "FALSE", "")),
        *((sent, True) for sent in ("true", "1", "on", "0", "no", "off", "None")),
    ],
)
async def test_a_checkbox_is_true_for_every_text_but_false(site: Site, sent: str, *, read: bool) -> None:
    """A default gateway cannot be set with DHCP, so a refusal shows that the box was read as true."""
    machine = await site.new()
    form = {"mode": "dhcp", "default_gateway": sent}
    answer = await site.send("POST", f"{boot_path(machine)}?op=link_subnet", form)
    if read:
        assert (answer.status_code, answer.json()) == (400, {"default_gateway": ["Cannot use in mode 'dhcp'."]})
    else:
        assert answer.status_code == 200, answer.text


async def test_a_checkbox_that_is_absent_is_false(site: Site) -> None:
    machine = await site.new()
    answer = await site.send("POST", f"{boot_path(machine)}?op=link_subnet", {"mode": "dhcp"})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(("sent", "read"), [("false", False), ("0", True), ("true", True), (None, False)])
async def test_a_flag_of_a_machine_keeps_its_value_when_it_is_absent(
    site: Site, sent: str | None, *, read: bool
) -> None:
    """Hardware sync is refused while no Linux is deployed, so a refusal shows that the flag was read as true."""
    machine = await site.new()
    form = {"description": "mine"} if sent is None else {"enable_hw_sync": sent}
    answer = await site.send("PUT", f"machines/{machine.system_id}/", form)
    if read:
        text = "Hardware sync is only supported for Linux based image deploys."
        assert (answer.status_code, answer.json()) == (400, {"enable_hw_sync": [text]})
    else:
        assert answer.status_code == 200, answer.text


async def test_an_unknown_power_parameter_is_refused_and_named(site: Site) -> None:
    machine = await site.new()
    form = {"power_type": "redfish", "power_parameters_made_up": "x"}
    refused = await site.send("PUT", f"machines/{machine.system_id}/", form)
    assert (refused.status_code, refused.json()) == (400, {"power_parameters": ["Unknown parameter(s): made_up."]})


# --- a word of formencode


@pytest.mark.parametrize("sent", ["false", "0", "no", "off", "F", " n ", ""])
async def test_every_word_for_no_is_read_as_no(site: Site, sent: str) -> None:
    machine = await site.new()
    path = f"{boot_path(machine)}?op=link_subnet"
    form = {"mode": "auto", "subnet": await a_subnet(site)}
    await site.send("POST", path, {**form, "force": "true"})
    answer = await site.send("POST", path, {"mode": "link_up", "force": sent})
    assert answer.status_code == 400
    assert "while other links are already configured" in answer.json()["mode"][0]


@pytest.mark.parametrize("sent", ["true", "1", "Yes", "on", "T"])
async def test_every_word_for_yes_is_read_as_yes(site: Site, sent: str) -> None:
    machine = await site.new()
    path = f"{boot_path(machine)}?op=link_subnet"
    form = {"mode": "auto", "subnet": await a_subnet(site), "force": sent}
    for _ in range(2):
        answer = await site.send("POST", path, form)
    assert [link["mode"] for link in answer.json()["links"]] == ["auto"]


async def test_an_unknown_word_is_refused_and_named(site: Site) -> None:
    machine = await site.new()
    answer = await site.send("POST", f"{boot_path(machine)}?op=link_subnet", {"mode": "dhcp", "force": "maybe"})
    assert (answer.status_code, answer.text) == (400, "Invalid force: Value should be 'true' or 'false'")


async def test_the_field_deployed_is_read_as_a_word_and_as_a_checkbox(site: Site) -> None:
    """`0` is no to the validator and yes to the form: the machine is taken for deployed."""
    machine = await site.new()
    form = {"hostname": f"{machine.hostname}-2", "mac_addresses": "02:00:00:00:00:99", "architecture": "amd64/generic"}
    answer = await site.send("POST", "machines/", {**form, "commission": "0", "deployed": "0"})
    assert answer.status_code == 200, answer.text
    made = answer.json()
    await site.send("DELETE", f"machines/{made['system_id']}/")
    assert made["status_name"] == "Deployed"


# --- numbers, choices, lists


@pytest.mark.parametrize(
    ("mtu", "told"),
    [("many", "Enter a whole number."), ("500", "Ensure this value is greater than or equal to 552.")],
)
async def test_a_number_is_whole_and_not_below_its_minimum(site: Site, mtu: str, told: str) -> None:
    machine = await site.new()
    answer = await site.send("PUT", boot_path(machine), {"mtu": mtu})
    assert (answer.status_code, answer.json()) == (400, {"mtu": [told]})


async def test_an_mtu_stays_until_an_empty_text_takes_it_away(site: Site) -> None:
    machine = await site.new()
    seen = [
        (await site.send("PUT", boot_path(machine), form)).json()["params"]
        for form in ({"mtu": "9000"}, {"name": "eno9"}, {"mtu": ""})
    ]
    assert [one.get("mtu") if one else None for one in seen] == [9000, 9000, None]


async def test_an_unknown_choice_is_refused_with_the_known_choices(site: Site) -> None:
    machine = await site.new(ports=2)
    path = f"nodes/{machine.system_id}/interfaces/?op=create_bond"
    parents = [str(port.id) for port in (await site.client.machine(machine.system_id)).interface_set]
    answer = await site.send("POST", path, {"name": "bond0", "parents": parents, "bond_mode": "802.3AD"})
    assert answer.status_code == 400
    assert answer.json()["bond_mode"][0].startswith("'802.3AD' is not a valid bond_mode.  It should be one of: 'bal")


async def test_the_mode_of_a_link_is_required_and_case_insensitive(site: Site) -> None:
    machine = await site.new()
    path = f"{boot_path(machine)}?op=link_subnet"
    assert (await site.send("POST", path, {"mode": "DhCp"})).json()["links"][0]["mode"] == "dhcp"
    assert (await site.send("POST", path, {})).json() == {"mode": ["This field is required."]}
    told = "'bogus' is not a valid mode.  It should be one of: 'auto', 'dhcp', 'static', 'link_up'."
    assert (await site.send("POST", path, {"mode": "Bogus"})).json() == {"mode": [told]}


async def test_a_list_repeats_its_name_and_another_field_has_its_last_value(site: Site) -> None:
    machine = await site.new(ports=2)
    assert len((await site.client.machine(machine.system_id)).interface_set) == 2
    form = {"description": ["first", "last"]}
    assert (await site.send("PUT", f"machines/{machine.system_id}/", form)).json()["description"] == "last"


async def test_a_bond_has_the_defaults_of_the_form(site: Site) -> None:
    machine = await site.new(ports=2)
    parents = [str(port.id) for port in (await site.client.machine(machine.system_id)).interface_set]
    path = f"nodes/{machine.system_id}/interfaces/?op=create_bond"
    bond = (await site.send("POST", path, {"name": "bond0", "parents": parents})).json()
    usual = {"bond_mode": "balance-rr", "bond_lacp_rate": "fast", "bond_xmit_hash_policy": "layer2"}
    numbers = {"bond_miimon": 100, "bond_downdelay": 0, "bond_updelay": 0, "bond_num_grat_arp": 1}
    assert bond["params"] == usual | numbers
    refused = await site.send(
        "POST", f"nodes/{machine.system_id}/interfaces/{parents[0]}/?op=link_subnet", {"mode": "dhcp"}
    )
    interface = ((await site.client.machine(machine.system_id)).interface_set)[0].name
    told = f"Cannot link interface({interface}) when interface is in a bond(bond0)."
    assert refused.json() == {"bond": [told]}


async def test_a_missing_required_field_is_named(site: Site) -> None:
    machine = await site.new()
    answer = await site.send("POST", f"nodes/{machine.system_id}/interfaces/?op=create_bond", {"name": "bond0"})
    blank = {"mac_address": ["This field cannot be blank."]}
    assert answer.json() == {"parents": ["A bond interface must have one or more parents."], **blank}


# --- ignored fields, and single parameters of a query


async def test_fields_that_an_operation_does_not_read_are_ignored(site: Site) -> None:
    machine = await site.new()
    form = {"description": "mine", "colour": "red", "skip_storage": "0"}
    answer = await site.send("PUT", f"machines/{machine.system_id}/", form)
    assert (answer.status_code, answer.json()["description"]) == (200, "mine")


async def test_a_level_is_in_capitals_and_a_limit_is_at_least_one(site: Site) -> None:
    machine = await site.new()
    await site.send("PUT", f"machines/{machine.system_id}/", {"description": "an event or two"})
    path = "events/?op=query"
    assert (await site.send("GET", f"{path}&level=info")).text == "Unrecognised log level: info"
    assert (await site.send("GET", f"{path}&limit=x")).text == "Invalid limit: Please enter an integer value"
    assert (await site.send("GET", f"{path}&level=DEBUG&limit=0")).json()["count"] <= 1
    both = await site.send("GET", f"{path}&after=1&before=9")
    assert both.text == "There is undetermined behaviour when both `after` and `before` are specified."


# --- the table


def test_each_field_names_the_line_that_reads_it() -> None:
    source = re.compile(r"(maasserver|metadataserver|provisioningserver)/[a-z_/]+\.py:\d+")
    unnamed = [
        f"{operation} {name}"
        for operation, fields in FIELDS.items()
        for name, field in fields.items()
        if not source.fullmatch(field.source)
    ]
    assert not unnamed


def test_a_field_that_is_no_flag_cannot_be_read_as_one() -> None:
    with pytest.raises(AssertionError, match="is no flag"):
        flag(Field(reader=Reader.RAW, source=""), "comment", Data([("comment", "true")]))
