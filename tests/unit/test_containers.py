"""The Dockerfile and the compose file: the files and settings that they name exist, and containers have no privileges.

These tests need no Docker engine. `tests/e2e/test_containers.py` runs the commands of the files, also without an
engine.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import typer

from farrier import cli, config
from tests.support import containers, pages
from tests.support.containers import COMPOSE, DEPLOY, OWN, ROOT, SERVICES

own_services = pytest.mark.parametrize("name", OWN)


def test_files_that_the_image_copies_are_in_the_checkout_and_in_the_context() -> None:
    names = containers.copied()
    assert {name for name in names if not (ROOT / name).exists()} == set()
    context = (ROOT / ".dockerignore").read_text().split("\n")
    assert names == {line[1:] for line in context if line.startswith("!")}


def test_the_image_runs_the_daemon_as_an_account_without_privileges() -> None:
    image = containers.image()
    account, _, group = image["USER"].partition(":")
    assert int(account) == int(group) > 1000
    assert (image["ENTRYPOINT"], image["CMD"]) == ('["farrier"]', '["run"]')
    assert all(":" in words.split()[0] for word, words in containers.instructions() if word == "FROM")


def test_the_ports_of_the_image_are_the_default_ones_and_its_variables_are_settings() -> None:
    usual = config.Config()
    ports = [str(section.port) for section in (usual.metrics, usual.http, usual.agents)]
    assert containers.image()["EXPOSE"].split() == ports
    own = {name: value for name, value in containers.variables().items() if name.startswith("FARRIER_")}
    loaded = config.load(environment=own)
    assert (loaded.metrics.host, loaded.http.host) == ("0.0.0.0", "0.0.0.0")


@own_services
def test_a_container_of_farrier_has_no_privileges(name: str) -> None:
    service = OWN[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@own_services
def test_a_service_of_farrier_runs_a_command_and_sets_settings(name: str) -> None:
    word, *rest = OWN[name]["command"]
    command = typer.main.get_command(cli.load(word))
    context = command.make_context(word, list(rest))
    if isinstance(command, typer.core.TyperGroup):
        _, sub, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
        assert sub is not None
        sub.make_context(sub.name, arguments, parent=context)
    config.load(environment=OWN[name].get("environment", {}))  # refuses unknown settings


def test_the_three_processes_have_three_database_users() -> None:
    processes = [OWN[name] for name in ("farrier", "serve", "agents")]
    assert len({process["environment"]["FARRIER_DATABASE_DSN"] for process in processes}) == 3
    script = (DEPLOY / "postgres/logins.sh").read_text(encoding="utf-8")
    granted = dict(re.findall(r"CREATE ROLE (fleet\w+) LOGIN .* IN ROLE (.*);", script))
    assert granted == {
        "fleetd": "farrier_controller",
        "fleetweb": "farrier_intents, farrier_reader",
        "fleetdoor": "farrier_agent",
    }


def test_ports_are_published_only_on_loopback() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) == 5
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_files_volumes_secrets_and_services_that_the_compose_file_names_exist() -> None:
    for name, service in SERVICES.items():
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"]), name
        assert set(service.get("depends_on", {})) <= set(SERVICES), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], volume
    used = {secret for service in SERVICES.values() for secret in service.get("secrets", [])}
    assert used == set(COMPOSE["secrets"])
    assert all(Path(secret["file"]).parts[0] == "secrets" for secret in COMPOSE["secrets"].values())


def test_a_secret_is_read_only_by_a_service_that_has_it() -> None:
    for name, service in SERVICES.items():
        values = service.get("environment", {}).values()
        read = {value.rpartition("/")[2] for value in values if "/run/secrets/" in value}
        assert read <= set(service.get("secrets", [])), name


def test_the_page_shows_the_provider_of_dashboards_that_the_deployment_uses() -> None:
    found = [block.text for block in pages.blocks(ROOT / "docs/operate/dashboards.md") if "providers:" in block.text]
    (shown,) = map(msgspec.yaml.decode, found)
    used = msgspec.yaml.decode((DEPLOY / "grafana/dashboards.yaml").read_text(encoding="utf-8"))
    for provisioned in (shown, used):
        provisioned["providers"][0]["options"].pop("path")
    assert shown == used
