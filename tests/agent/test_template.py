"""The shipped template of user data, as farrier renders it for a node, and what it does on the machine."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]
from typing_extensions import override

from farrier import agent
from farrier.config import AgentsConfig, site_files
from farrier.config.sites import Site
from farrier.errors import ConfigError
from farrier.handlers.node.maas import cloud_init
from farrier.sim.certificates import Authority
from tests.support.nodes import node

TOKEN = "fbt_0123456789abcdef"
URL = "https://agents.example:9466"
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site whose file names no template."""
    return site_of(tmp_path, '[cleaning]\nby = "agent"\n')


def site_of(directory: Path, content: str, *, url: str = URL, pem: str = PEM) -> Site:
    ca = directory / "ca.pem"
    ca.write_text(pem)
    sites = directory / "sites"
    sites.mkdir()
    (sites / "north.toml").write_text(content)
    return site_files.load(str(sites), AgentsConfig(url=url, ca=str(ca)))["north"]


def files_of(user_data: str) -> dict[str, dict[str, Any]]:
    """The files that cloud-init writes, by path."""
    return {each["path"]: each for each in yaml.safe_load(user_data)["write_files"]}


def test_a_site_without_a_template_gets_cloud_config_that_installs_the_agent(site: Site) -> None:
    gpu = node(site="north", labels={"gpus": "8"})

    user_data = cloud_init.render(site, gpu, token=TOKEN)

    assert user_data.startswith("#cloud-config\n")
    files = files_of(user_data)
    config = files["/etc/farrier-agent/config.json"]
    assert config["permissions"] == "0600"
    assert json.loads(config["content"]) == {
        "url": URL,
        "token": TOKEN,
        "ca": "/etc/farrier-agent/ca.pem",
        "cleaning_by": "agent",
        "gpus": 8,
    }
    assert files["/etc/farrier-agent/ca.pem"]["content"] == PEM
    assert agent.sha256() in files["/etc/farrier-agent/setup.py"]["content"]
    assert [command[0] for command in yaml.safe_load(user_data)["runcmd"]] == ["systemctl", "systemctl"]


def test_the_user_data_uses_only_keys_that_cloud_init_knows(site: Site) -> None:
    user_data = yaml.safe_load(cloud_init.render(site, node(site="north"), token=TOKEN))

    assert user_data.keys() == {"write_files", "runcmd"}
    assert all(each.keys() <= {"path", "content", "permissions"} for each in user_data["write_files"])
    assert all(isinstance(each["content"], str) for each in user_data["write_files"])


def test_a_node_without_agent_gets_no_agent(site: Site) -> None:
    assert cloud_init.render(site, node(site="north", agentless=True), token="") == "#cloud-config\n"


def test_without_a_url_of_agents_a_site_sends_no_user_data(tmp_path: Path) -> None:
    assert cloud_init.render(site_of(tmp_path, "", url=""), node(site="north"), token=TOKEN) == ""


def test_a_template_that_names_agents_needs_a_url_of_agents(tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "own.j2").write_text("#cloud-config\n# {{ agents.url }}\n")
    (tmp_path / "sites" / "north.toml").write_text('[cloud_init]\ntemplate_file = "own.j2"\n')

    with pytest.raises(ConfigError, match=r"agents\.url in farrier's settings is empty"):
        site_files.load(str(tmp_path / "sites"), AgentsConfig())


def test_a_ca_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a PEM file with certificates"):
        site_of(tmp_path, "", pem="not a certificate")


@pytest.mark.parametrize("url", ["http://agents.example:9466", "https://agents.example/path", "agents.example"])
def test_a_url_without_tls_is_refused(url: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"url": url}, AgentsConfig)


# What stands in for the archive: it notes the command that it gets.
PROGRAM = b"import sys; open(__file__ + '.ran', 'w').write(sys.argv[1])\n"


@pytest.mark.parametrize(
    ("served", "trusted", "said"),
    [
        (PROGRAM, True, ""),
        (PROGRAM + b"# changed on the way\n", True, "expected the SHA-256"),
        (PROGRAM, False, "certificate verify failed"),
    ],
)
def test_the_machine_starts_the_archive_only_with_its_digest_and_from_a_server_that_the_ca_signed(
    tmp_path: Path, served: bytes, trusted: bool, said: str
) -> None:
    authority, other = (Authority(name, now=datetime.now(UTC)) for name in ("one", "other"))
    pem = (authority if trusted else other).write(tmp_path / "trusted.pem").read_text()
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "farrier-agent.pyz").write_bytes(served)
    with serving(tmp_path / "served", authority, tmp_path) as url:
        site = site_of(tmp_path, "", url=url, pem=pem)
        user_data = cloud_init.render(site, node(site="north"), token=TOKEN)
        user_data = user_data.replace(agent.sha256(), hashlib.sha256(PROGRAM).hexdigest())
        done = set_up(tmp_path / "machine", files_of(user_data))

    program = tmp_path / "machine/opt/farrier-agent/farrier-agent.pyz"
    assert said in done.stderr
    assert (done.returncode == 0) is not bool(said)
    assert len(done.stderr.splitlines()) == bool(said)
    assert program.exists() is not bool(said)
    if not said:
        assert Path(f"{program}.ran").read_text() == "install"


def set_up(root: Path, files: dict[str, dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    """Write the files as cloud-init does, below a directory, and run the script that downloads the agent."""
    for path, file in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(file["content"].replace('"/etc/', f'"{root}/etc/').replace('"/opt/', f'"{root}/opt/'))
    script = str(root / "etc/farrier-agent/setup.py")
    return subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def serving(directory: Path, authority: Authority, workspace: Path) -> Iterator[str]:
    """Serve a directory over TLS."""
    import ssl

    class Quiet(SimpleHTTPRequestHandler):
        @override
        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    issued = authority.issue(workspace, hosts=("127.0.0.1",), lifetime=timedelta(hours=1))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory)))
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
