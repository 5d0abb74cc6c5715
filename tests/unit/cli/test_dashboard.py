"""`farrier dashboard`: prints one dashboard, writes dashboards to a directory, and lists them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from farrier import cli
from farrier.metrics import dashboards


def run(*words: str) -> Result:
    return CliRunner().invoke(cli.app, ["dashboard", *words], env={"COLUMNS": "200"})


@pytest.mark.parametrize("name", dashboards.NAMES)
def test_a_dashboard_is_printed_as_it_is_shipped(name: str) -> None:
    assert json.loads(run(name).stdout) == json.loads(dashboards.path(name).read_text(encoding="utf-8"))


def test_all_dashboards_are_written_into_a_directory_that_is_created_if_it_is_missing(tmp_path: Path) -> None:
    said = run("--out", str(tmp_path / "provisioned" / "farrier"))
    assert said.exit_code == 0
    files = {path.name: json.loads(path.read_text()) for path in (tmp_path / "provisioned" / "farrier").iterdir()}
    assert set(files) == {f"farrier-{name}.json" for name in dashboards.NAMES}
    assert all(name in said.stdout for name in files)


def test_one_dashboard_is_written_alone_and_reported_as_json(tmp_path: Path) -> None:
    said = run("stuck", "--out", str(tmp_path), "--json")
    assert json.loads(said.stdout) == [{"name": "stuck", "path": str(tmp_path / "farrier-stuck.json")}]
    assert [path.name for path in tmp_path.iterdir()] == ["farrier-stuck.json"]


def test_links_begin_with_the_urls_of_the_option_and_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARRIER_METRICS_RUNBOOKS_URL", "https://docs.example")
    board = json.loads(run("stuck", "--pages", "https://farrier.example/").stdout)
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert variables["pages"]["query"] == variables["pages"]["current"]["value"] == "https://farrier.example"
    assert variables["runbooks"]["query"] == "https://docs.example"


def test_the_list_shows_the_title_and_the_purpose_of_each_dashboard() -> None:
    found = json.loads(run("--list", "--json").stdout)
    assert [each["name"] for each in found] == list(dashboards.NAMES)
    table = run("--list").stdout
    assert all(each["title"] in table and each["answers"] in table for each in found)


@pytest.mark.parametrize("words", [(), ("fleeet",)])
def test_a_missing_or_unknown_dashboard_name_is_a_usage_error_with_the_known_names(words: tuple[str, ...]) -> None:
    said = run(*words)
    assert said.exit_code == 2
    assert all(name in said.output for name in dashboards.NAMES)


def test_a_directory_that_cannot_be_created_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    said = run("--out", str(tmp_path / "taken" / "below"))
    assert (said.exit_code, said.stdout) == (2, "")
    assert said.stderr.startswith("farrier: --out: ") and said.stderr.count("\n") == 1
