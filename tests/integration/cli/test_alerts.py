"""`farrier alerts`: writes the rules of the given settings to standard output or to a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://docs.example/farrier/", "https://docs.example/farrier/reference/failures.md#failure-timeout"),
        ("https://docs.example/{page}/", "https://docs.example/reference/failures/#failure-timeout"),
        ("", "docs/reference/failures.md#failure-timeout"),
    ],
)
async def test_rules_are_printed_as_yaml_and_as_json_with_links_to_the_pages_of_the_setting(
    nowhere: Prompt, tmp_path: Path, url: str, link: str
) -> None:
    file = tmp_path / "farrier.toml"
    file.write_text(f'[metrics]\nrunbooks_url = "{url}"\n')
    said = await nowhere("alerts", "--config", file)
    assert said.out.startswith("groups:\n  - name: 'farrier-fleet'\n")
    made = (await nowhere("alerts", "--config", file, "--json")).json
    links = {rule["annotations"]["runbook_url"] for group in made["groups"] for rule in group["rules"]}
    assert link in links
    assert all(f"runbook_url: '{each}'" in said.out for each in links)


async def test_a_url_of_runbooks_that_is_not_absolute_is_refused(nowhere: Prompt, tmp_path: Path) -> None:
    file = tmp_path / "farrier.toml"
    file.write_text('[metrics]\nrunbooks_url = "docs.example"\n')
    said = await nowhere("alerts", "--config", file, ends=ExitCode.USAGE)
    assert "absolute URL" in said.err and "docs.example" in said.err


async def test_rules_are_those_of_the_settings(nowhere: Prompt, tmp_path: Path) -> None:
    file = tmp_path / "farrier.toml"
    file.write_text('[metrics]\nname_resources = false\n[sla]\n"onboarding.end_to_end" = "90m"\n')
    said = await nowhere("alerts", "--config", file)
    assert "onboarding 1h 30m, decommission 8h" in said.out
    assert "farrier_resource_above_sla_seconds" not in said.out


async def test_rules_are_written_to_a_file_or_the_error_is_reported(nowhere: Prompt, tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    assert (await nowhere("alerts", "--out", file)).out == ""
    assert file.read_text() == (await nowhere("alerts")).out
    said = await nowhere("alerts", "--out", tmp_path / "no" / "rules.yml", ends=ExitCode.USAGE)
    assert "No such file" in said.err
