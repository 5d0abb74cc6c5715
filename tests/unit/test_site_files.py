"""Site files: the settings of good ones, and all errors of bad ones in one message."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from farrier.config import AgentsConfig, site_files
from farrier.config.sites import Erase, Site
from farrier.errors import ConfigError, ExitCode
from farrier.handlers.node.maas import cloud_init
from farrier.model.maas.changes import LinkMode
from tests.support.nodes import node
from tools import site_keys

EXAMPLE = Path(__file__).parents[2] / "docs" / "operate"
MAAS = '[maas]\nurl = "http://maas.north:5240/MAAS"\nkey = "env:MAAS_KEY"\n'


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    directory = tmp_path / "sites"
    directory.mkdir()
    return directory


def site(sites: Path, text: str, template: str | None = None) -> Site:
    (sites / "north.toml").write_text(text)
    if template is not None:
        (sites / "user-data.j2").write_text(template)
    return site_files.load(str(sites), AgentsConfig())["north"]


def refusal(sites: Path, text: str | None = None, template: str | None = None) -> list[str]:
    """The lines of the error message."""
    if text is not None:
        (sites / "north.toml").write_text(text)
    if template is not None:
        (sites / "user-data.j2").write_text(template)
    with pytest.raises(ConfigError) as refused:
        site_files.load(str(sites), AgentsConfig())
    assert refused.value.exit_code is ExitCode.USAGE
    head, *lines = str(refused.value).splitlines()
    assert str(sites) in head
    return [line.removeprefix("- ") for line in lines]


def test_no_directory_means_no_sites() -> None:
    assert site_files.load("", AgentsConfig()) == {}


def test_the_site_in_the_documentation_is_valid_and_its_user_data_can_be_rendered() -> None:
    found = site_files.load(str(EXAMPLE), AgentsConfig(url="https://agents.example:9466"))
    (name,) = found
    example = found[name]
    made = cloud_init.render(example, node(site=name, labels={"rack": "r1"}), token="a-token")
    assert made.startswith("#cloud-config\n") and '"a-token"' in made and 'content: "r1"' in made
    assert example.maas is not None and example.maas.pool == "gpu"
    assert example.network.bonds[0].vlans[0].link is not None


def test_a_site_has_the_name_of_its_file_and_defaults_for_the_rest(sites: Path) -> None:
    assert site(sites, "") == Site(name="north")


def test_a_site_has_the_settings_of_its_file(sites: Path) -> None:
    found = site(
        sites,
        MAAS
        + '[observe]\nevents_every = "10s"\nmotion_every = 45\n[release]\nerase = "quick"\n'
        + '[[network.ports]]\nmatch = "ens*"\nlink = { mode = "dhcp" }\n[storage]\nroot_size_gb = 100\n',
    )
    assert found.observe.events_every == timedelta(seconds=10)
    assert found.observe.motion_every == timedelta(seconds=45)
    assert found.release.erase is Erase.QUICK
    assert found.network.ports[0].link is not None and found.network.ports[0].link.mode is LinkMode.DHCP
    assert found.storage.root_size_gb == 100


def test_every_key_has_a_description_and_a_default_in_the_syntax_of_a_file(sites: Path) -> None:
    described = site_keys.every()
    assert all(each.description for each in described)
    tables: dict[str, list[str]] = {}
    for each in described:
        if each.default and "." not in each.table and each.table not in ("[maas]", "[ufm]"):
            tables.setdefault(each.table, []).append(f"{each.key} = {each.default}")
    text = "\n".join(line for table, lines in tables.items() for line in (table, *lines))
    assert site(sites, text) == Site(name="north")


def test_files_that_editors_and_mounts_leave_are_ignored(sites: Path) -> None:
    for name in (".north.toml", "north.toml~", "notes.txt", "template.j2"):
        (sites / name).write_text("no TOML")
    assert site_files.load(str(sites), AgentsConfig()) == {}


def test_a_missing_directory_is_an_error(sites: Path) -> None:
    with pytest.raises(ConfigError, match=r"sites\.directory.*No such file"):
        site_files.load(str(sites / "gone"), AgentsConfig())


def test_all_errors_are_reported_together_and_no_site_is_loaded(sites: Path) -> None:
    (sites / "good.toml").write_text(MAAS)
    (sites / "south.toml").write_text("[storage]\nlayuot = 'flat'\n")
    assert refusal(sites, "[release]\nerase = 'wipe'\n[deploy]\nhardware_sync = 'yes'\n") == [
        "north.toml: [deploy] hardware_sync: Expected `bool`, got `str`; got 'yes'",
        "north.toml: [release] erase: expected one of 'none', 'quick', 'secure', 'full'; got 'wipe'",
        "south.toml: [storage]: unknown key 'layuot'; did you mean 'layout'?",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[maas", "is not valid TOML"),
        ("[mass]\n", "unknown key 'mass'; did you mean 'maas'?"),
        ("maas = 3\n", "[maas]: expected a table, got a number"),
        ("name = 'x'\n", "unknown key 'name'"),
        (
            "[cloud_init]\ntemplate = '#cloud-config'\n",
            "[cloud_init]: unknown key 'template'; did you mean 'template_file'",
        ),
        ('[maas]\nkey = "env:K"\n', "[maas] url: is missing; expected: Base URL"),
        (MAAS.replace("/MAAS", ""), "[maas] url: expected: Base URL, ending in /MAAS; got 'http"),
        (MAAS.replace("maas.north", "me:secret@maas.north"), "[maas] url: expected http[s]://host[:port]/MAAS"),
        (MAAS.replace("5240", "524000"), "[maas] url: expected http[s]://host[:port]/MAAS"),
        (MAAS.replace("env:MAAS_KEY", "aaa:bbb:secret"), "[maas] key: expected a reference to the API key"),
        (MAAS.replace("env:MAAS_KEY", "env:"), "[maas] key: expected a reference to the API key"),
        (MAAS.replace('"env:MAAS_KEY"', '["secret"]'), "[maas] key: Expected `str`, got `array`"),
        (MAAS + 'ca_file = "ca.pem"\n', "[maas] ca_file: expected an absolute path, got 'ca.pem'"),
        (MAAS + 'node_timeout = "2s"\n', "[maas] node_timeout: expected 1m to 1d, got 2s"),
        ('[observe]\nevents_every = "0s"\n', "[observe] events_every: expected a duration longer than 0"),
        ('[observe]\nevents_every = "2m"\nmotion_every = "3m"\n', "[observe] events_every: expected 1s to 1m, got 2m"),
        ("[observe]\nevents_every = 0.5\n", "[observe] events_every: expected 1s to 1m, got 0.5s"),
        ("[observe]\nevents_every = [1]\n", "[observe] events_every: expected a duration such as 30s"),
        ('[observe]\nsweep_every = "10d"\n', "[observe] sweep_every: expected 1m to 1d"),
        ('[observe]\nevents_every = "1m"\n', "expected events_every to be the shortest"),
        ('[deploy]\nbootstrap_ttl = "31d"\n', "[deploy] bootstrap_ttl: expected 1m to 30d, got 31d"),
        ("[deploy]\nmax_datasource_retries = 11\n", "Expected `int` <= 10; got a number 11"),
        ('[storage]\nboot_disk_model = "("\n', "boot_disk_model is not a valid regular expression: missing )"),
        (
            '[storage]\nboot_disk_model = ".*"\n',
            "[storage] boot_disk_model: expected a pattern that matches only boot disks",
        ),
        ('[storage]\nlayout = "blank"\nroot_size_gb = 10\n', "[storage] root_size_gb: layout blank creates no root"),
        ('[network]\npxe_subnet = "10.0.0.1/24"\n', "[network] pxe_subnet: expected a CIDR such as 10.1.0.0/24"),
        ('[network]\npxe_subnet = "10.0.0.0"\n', "[network] pxe_subnet: expected a CIDR such as 10.1.0.0/24, got the"),
        ("[network]\nbonds = 3\n", "[network] bonds: expected tables [[network.bonds]], got a number"),
        ('[[network.bonds]]\nname = "b"\nports = []\n', "[network.bonds 1] ports: Expected `array` of length >= 1"),
        (
            '[[network.bonds]]\nname = "b"\nports = ["a"]\nmode = "4"\n',
            "[network.bonds 1] mode: expected: Bond mode, as the kernel",
        ),
        (
            '[[network.bonds]]\nname = "b"\nports = ["a"]\nlacp_rate = "warp"\n',
            "[network.bonds 1] lacp_rate: expected one of slow, fast; got 'warp'",
        ),
        (
            '[[network.bonds]]\nname = "b"\nports = ["a"]\nxmit_hash_policy = "x"\n',
            "[network.bonds 1] xmit_hash_policy: expected one of layer2",
        ),
        (
            '[[network.bonds]]\nname = "b"\nports = ["a"]\n[[network.bonds]]\nname = "b"\nports = ["c"]\n',
            "[network.bonds]: name 'b' is listed 2 times",
        ),
        (
            '[[network.bonds]]\nname = "b"\nports = ["a"]\n[[network.bonds]]\nname = "c"\nports = ["a"]\n',
            "[network.bonds]: port 'a' is listed 2 times",
        ),
        ('[[network.ports]]\nmatch = "a"\n[[network.ports]]\nmatch = "a"\n', "[network.ports]: match 'a' is listed"),
        (
            '[[network.ports]]\nmatch = "a"\nlink = {}\n[[network.bonds]]\nname = "b"\nports = ["a"]\n',
            "[network.ports 1.link]: 'a' is in a bond; configure the link on the bond",
        ),
        (
            '[[network.bonds]]\nname = "b"\nports = ["a"]\nmtu = 1500\nvlans = [{ vid = 7, mtu = 9000 }]\n',
            "[network.bonds 1.vlans 1] mtu: expected at most 1500, the MTU of its parent interface; got 9000",
        ),
        (
            '[[network.bonds]]\nname = "b"\nports = ["a"]\nvlans = [{ vid = 7 }, { vid = 7 }]\n',
            "[network.bonds 1.vlans]: vid '7' is listed 2 times",
        ),
    ],
)
def test_an_error_is_reported_with_its_place(sites: Path, text: str, expected: str) -> None:
    (line,) = refusal(sites, text)
    assert line.startswith("north.toml: ") and expected in line
    assert "secret" not in line


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ('{ mode = "auto", addresses = { n = "10.0.0.5" } }', "addresses: is allowed only with mode static, but"),
        ('{ mode = "static", addresses = { n = "10.0.0.5" } }', "subnet: is missing"),
        ('{ mode = "static", subnet = "10.0.0.0/24" }', "addresses: is missing"),
        ('{ mode = "static", subnet = "10.0.0.0/24", addresses = { n = "x" } }', "addresses.n: expected an IP address"),
        (
            '{ mode = "static", subnet = "10.0.0.0/24", addresses = { n = "10.0.1.5" } }',
            "addresses.n: expected an address in 10.0.0.0/24, got 10.0.1.5",
        ),
        ('{ subnet = "10.0.0.0/33" }', "subnet: expected a CIDR"),
        (
            '{ mode = "static", subnet = "fd00::/64", addresses = { n = "fd00::1", m = "fd00:0::1" } }',
            "[network]: address 'fd00::1' is listed 2 times",
        ),
    ],
)
def test_inconsistent_settings_of_a_link_are_refused(sites: Path, link: str, expected: str) -> None:
    (line,) = refusal(sites, f'[[network.ports]]\nmatch = "a"\nvlans = [{{ vid = 7, link = {link} }}]\n')
    assert expected in line


def test_a_region_belongs_to_one_site_and_names_differ_in_more_than_case(sites: Path) -> None:
    for name, end in (("North", ""), ("north", "/")):
        (sites / f"{name}.toml").write_text(MAAS.replace("/MAAS", f"/MAAS{end}"))
    assert refusal(sites) == [
        "North, north: names must differ in more than upper and lower case",
        "North, north: [maas] url: all use http://maas.north:5240/maas; a region can belong to only one site",
    ]


@pytest.mark.parametrize("name", ["a b", "-a", "ü", "x" * 64])
def test_a_name_that_is_not_a_valid_label_is_refused(sites: Path, name: str) -> None:
    (sites / f"{name}.toml").write_text("")
    assert "a site's name consists of letters, digits" in refusal(sites)[0]


def test_a_file_that_is_not_regular_or_too_large_or_not_utf_8_is_refused(sites: Path) -> None:
    (sites / "a.toml").mkdir()
    (sites / "b.toml").write_bytes(b"#" * (1024 * 1024 + 1))
    (sites / "c.toml").write_bytes(b"\xff")
    (sites / "d.toml").symlink_to(sites / "gone")
    assert refusal(sites) == [
        "a.toml: expected a regular file",
        "b.toml: is too large; expected at most 1048576 bytes",
        "c.toml: is not UTF-8: byte 0xff at 0",
        "d.toml: expected a regular file",
    ]


# --- templates

TEMPLATE = '[cloud_init]\ntemplate_file = "user-data.j2"\n'


def test_a_template_is_read_with_its_site(sites: Path) -> None:
    found = site(sites, TEMPLATE, "#cloud-config\n").cloud_init
    assert (found.template, found.template_file) == ("#cloud-config\n", "user-data.j2")


def test_a_directory_that_is_mounted_by_symlinks_is_read(sites: Path) -> None:
    held = sites / "..2026"
    held.mkdir()
    (held / "north.toml").write_text(TEMPLATE)
    (held / "user-data.j2").write_text("#cloud-config\n")
    for name in ("north.toml", "user-data.j2"):
        (sites / name).symlink_to(Path("..2026") / name)
    assert site_files.load(str(sites), AgentsConfig())["north"].cloud_init.template == "#cloud-config\n"


@pytest.mark.parametrize(
    "template",
    [
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
        "{% for one in [1] %}" * 40 + "{% endfor %}" * 40,
    ],
)
def test_a_template_that_is_nested_too_deeply_is_refused(sites: Path, template: str) -> None:
    (line,) = refusal(sites, TEMPLATE, template)
    assert "nested too deeply" in line


@pytest.mark.parametrize("way", ["../secret", "/etc/hostname", "link"])
def test_a_template_outside_the_directory_is_not_read(sites: Path, way: str) -> None:
    (sites.parent / "secret").write_text("secret")
    (sites / "link").symlink_to(sites.parent / "secret")
    (line,) = refusal(sites, f'[cloud_init]\ntemplate_file = "{way}"\n')
    assert "[cloud_init] template_file: is outside the directory" in line


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (None, "[cloud_init] template_file: cannot be found: No such file"),
        ("", "[cloud_init] template_file: is empty"),
        ("#" * (1024 * 1024 + 1), "expected at most 1048576 bytes"),
        ("#\n{% if %}", "[cloud_init] user-data.j2: line 2: Expected an expression"),
        ("{{ node.name | yml }}", "line 1: No filter named 'yml'"),
        ("{{ nod.name }}", "line 1: unknown name 'nod'; did you mean 'node'?"),
        ("\n{{ node.nmae }}", "line 2: node has no 'nmae'; did you mean 'name'?"),
        ("{{ node['nmae'] }}", "node has no 'nmae'"),
        ("{{ node.bmc.serail }}", "node has no 'serail'; did you mean 'serial'?"),
        ("{% include 'other' %}", "it includes, imports or extends another template"),
        ("{% include node.name %}", "it includes, imports or extends another template"),
    ],
)
def test_a_faulty_template_is_refused_when_it_is_read(sites: Path, template: str | None, expected: str) -> None:
    (line,) = refusal(sites, TEMPLATE, template)
    assert expected in line


@pytest.mark.parametrize(
    "template",
    [
        "{{ node.labels.anything }} {{ node.bmc.serial }} {{ proxy }} {{ bootstrap_token }}",
        "{% for mac in node.macs %}{{ loop.index }} {{ mac }}{% endfor %}",
        "{% set node = 1 %}{{ node.anything }}",
        "{{ node[proxy] }}",
    ],
)
def test_names_that_depend_on_the_node_are_not_checked_when_a_template_is_read(sites: Path, template: str) -> None:
    assert site(sites, TEMPLATE + 'variables = { proxy = "x" }\n', template).cloud_init.template == template


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("node", "is reserved: every template has it"),
        ("x-y", "has an invalid name"),
        ("bootstrap_token", "is"),
    ],
)
def test_a_variable_with_a_reserved_or_invalid_name_is_refused(sites: Path, name: str, expected: str) -> None:
    (line,) = refusal(sites, f"[cloud_init.variables]\n{name} = 1\n")
    assert expected in line


WITH_A_TOKEN = "#cloud-config\ntoken: {{ bootstrap_token }}\n"
TTL = '[cloud_init]\ntemplate_file = "user-data.j2"\n[deploy]\nbootstrap_ttl = "{ttl}"\n'


@pytest.mark.parametrize(
    ("node_timeout", "ttl", "least"), [("30m", "179m", "3h"), ("1h", "4h", "5h")], ids=["default", "slow machines"]
)
def test_a_token_that_may_expire_before_the_machine_is_installed_is_refused(
    sites: Path, node_timeout: str, ttl: str, least: str
) -> None:
    text = MAAS + f'node_timeout = "{node_timeout}"\n' + TTL.format(ttl=ttl)
    (line,) = refusal(sites, text, WITH_A_TOKEN)
    assert f"[deploy] bootstrap_ttl: expected at least {least}" in line
    assert site(sites, text.replace(f'"{ttl}"', f'"{least}"'), WITH_A_TOKEN).deploy.bootstrap_ttl > timedelta(0)


def test_without_a_token_in_the_template_its_lifetime_is_not_checked(sites: Path) -> None:
    assert site(sites, MAAS + TTL.format(ttl="1m"), "#cloud-config\n").deploy.bootstrap_ttl == timedelta(minutes=1)


UFM = '[ufm]\nurl = "https://ufm.north"\n'


def test_a_fabric_manager_is_configured_with_a_user_or_with_a_token(sites: Path) -> None:
    with_user = site(sites, UFM + 'credential = "env:UFM"\nread_timeout = "5s"\n').ufm
    assert with_user is not None and (with_user.credential, with_user.token) == ("env:UFM", "")
    assert with_user.read_timeout == timedelta(seconds=5)
    with_token = site(sites, UFM + 'token = "file:/run/ufm"\n').ufm
    assert with_token is not None and with_token.token == "file:/run/ufm"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (UFM, "[ufm]: expected exactly one of credential (a user and password) and token"),
        (UFM + 'credential = "env:A"\ntoken = "env:B"\n', "expected exactly one of credential"),
        (UFM + 'credential = "hunter2"\n', "[ufm] credential: expected a reference to the secret"),
        (UFM + 'token = "hunter2"\n', "[ufm] token: expected a reference to the secret"),
        (UFM + 'token = "env:A"\nca_file = "ca.pem"\n', "[ufm] ca_file: expected an absolute path"),
        (UFM + 'token = "env:A"\nread_timeout = "1m"\n', "[ufm] read_timeout: expected 1s to 20s, got 1m"),
        (UFM + 'token = "env:A"\nchange_timeout = "1m"\n', "[ufm] change_timeout: expected 1s to 45s, got 1m"),
        ('[ufm]\nurl = "https://ufm.north/ufmRest"\ntoken = "env:A"\n', "[ufm] url"),
        ('[ufm]\nurl = "https://me:hunter2@ufm.north"\ntoken = "env:A"\n', "[ufm] url: expected http[s]://host"),
    ],
)
def test_invalid_settings_of_a_fabric_manager_are_refused_without_repeating_a_secret(
    sites: Path, text: str, words: str
) -> None:
    (line,) = refusal(sites, text)
    assert words in line
    assert "hunter2" not in line


def test_a_fabric_manager_belongs_to_one_site(sites: Path) -> None:
    (sites / "south.toml").write_text('[ufm]\nurl = "https://UFM.north/"\ntoken = "env:A"\n')
    (line,) = refusal(sites, UFM + 'token = "env:A"\n')
    assert "north, south: [ufm] url" in line


# --- segments and partitions

USES = """[maas]
url = "http://maas.north:5240/MAAS"
key = "env:MAAS_KEY"
[ufm]
url = "https://ufm.north"
token = "env:UFM"
[network]
segments = ["tenant-a", "10.lan"]
[infiniband]
partitions = ["ib-a"]
"""


@pytest.mark.parametrize(
    ("was", "becomes", "expected"),
    [
        ('"10.lan"', '"tenant-a"', "[network] segments: segment 'tenant-a' is listed 2 times"),
        ('"10.lan"', '"10"', "[network] segments"),
        ('"10.lan"', '"a b"', "[network] segments"),
        ('"ib-a"', '"ib-a", "ib-a"', "partition 'ib-a' is listed 2 times"),
        ('[ufm]\nurl = "https://ufm.north"\ntoken = "env:UFM"\n', "", "expected a table [ufm]"),
        ('["ib-a"]', str([f"p{number}" for number in range(17)]), "[infiniband] partitions"),
    ],
    ids=["twice", "a number", "a blank", "a partition twice", "no UFM", "too many"],
)
def test_invalid_or_repeated_names_of_segments_and_partitions_are_refused(
    sites: Path, was: str, becomes: str, expected: str
) -> None:
    assert was in USES
    (line,) = refusal(sites, USES.replace(was, becomes))
    assert expected in line


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            "{{ segments['tenant-b'].address }}",
            "line 2: the nodes of this site have no segment 'tenant-b'; did you mean",
        ),
        ("{{ segments.tenant.address }}", "line 2: the nodes of this site have no segment 'tenant'"),
        ("{{ segments['tenant-a'].adress }}", "line 2: a segment has no 'adress'; did you mean 'address'?"),
    ],
)
def test_unknown_segments_and_fields_in_a_template_are_refused(sites: Path, template: str, expected: str) -> None:
    (line,) = refusal(sites, USES + TEMPLATE, f"#cloud-config\n{template}\n")
    assert expected in line


@pytest.mark.parametrize(
    "template",
    [
        "{{ segments['tenant-a'].address }} {{ segments['10.lan']['mtu'] }}",
        "{% for name, lan in segments.items() %}{{ name }} {{ lan.gateway or 'none' }}{% endfor %}",
        "{% if 'tenant-c' in segments %}{{ segments[other].address }}{% endif %}",
        "{% set segments = {} %}{{ segments.anything }}",
    ],
)
def test_a_template_may_use_the_segments_that_the_site_names(sites: Path, template: str) -> None:
    text = USES + TEMPLATE + 'variables = { other = "tenant-a" }\n'
    assert site(sites, text, f"#cloud-config\n{template}\n").infiniband.partitions == ("ib-a",)
