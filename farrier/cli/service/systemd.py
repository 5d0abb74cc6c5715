"""`farrier systemd`: installs the units of the services for the environment in which this program is installed.

The templates are in `farrier/systemd/units/`. An upgrade writes the units again, but never replaces the
files that operators edit.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from farrier.cli import group
from farrier.cli.output import printing
from farrier.errors import ConfigError
from farrier.systemd import UNITS

CONTROLLERS = ("farrier.service", "farrier@.service")
"""The units of controllers. Only these may have an account that stays."""
SERVERS = ("farrier-serve.service", "farrier-agents.service")
SERVICES = (*CONTROLLERS, *SERVERS)
_INSTALLED = Path("etc/systemd/system")

# The path at which the templates expect the program.
_PROGRAM = "/opt/farrier/bin/farrier"
# The names that `useradd` accepts on every distribution.
_ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,30}")

systemd = group("systemd")


class FileChange(StrEnum):
    """The change of a file."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    KEPT = "kept as it is"


class Installed(msgspec.Struct, frozen=True):
    """A file of the service, and how it was changed."""

    path: str
    change: FileChange


class _File(msgspec.Struct, frozen=True):
    """A file to write. An existing file that is `edited` is not replaced, because it belongs to the operator."""

    path: Path
    text: str
    edited: bool = False


@systemd.command("install")
def install(
    root: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Directory in which farrier writes the files instead of /, to build an image or a package.",
        ),
    ] = Path("/"),
    user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Run the controller as this account, which systemd-sysusers creates. Default: systemd creates a "
            "temporary account at each start.",
        ),
    ] = None,
    as_json: printing.AsJson = False,
) -> None:
    """Write the units of controller, pages and agents, and their drop-ins. Existing drop-ins are kept.

    The units are farrier.service and farrier@.service (controllers), farrier-serve.service (pages and API) and
    farrier-agents.service. A machine runs only the units that are enabled on it.
    """
    if user is not None and not _ACCOUNT.fullmatch(user):
        raise typer.BadParameter(
            f"--user: expected an account name of lower-case letters, digits, - and _, such as farrier; got {user!r}"
        )
    written = tuple(_written(file, root) for file in _files(user))
    if as_json:
        printing.json(written)
        return
    printing.table(("FILE", "CHANGE"), ((each.path, each.change) for each in written))
    account = "systemd-sysusers && " if user else ""
    typer.echo(f"next: {account}systemctl daemon-reload && systemctl enable --now farrier farrier-serve")


def _files(user: str | None) -> Iterator[_File]:
    program = Path(sysconfig.get_path("scripts")) / "farrier"
    for service in SERVICES:
        yield _File(_INSTALLED / service, _template(service).replace(_PROGRAM, str(program)))
        drop_ins = _INSTALLED / f"{service}.d"
        of = service.removesuffix(".service").removesuffix("@")
        yield _File(drop_ins / "credentials.conf", _template(f"credentials-of-{of}.conf"), edited=True)
        if user is not None and service in CONTROLLERS:
            yield _File(drop_ins / "account.conf", _template("account.conf").format(user=user))
    if user is not None:
        yield _File(Path("etc/sysusers.d/farrier.conf"), _template("sysusers.conf").format(user=user))


def _template(name: str) -> str:
    return (UNITS / name).read_text(encoding="utf-8")


def _written(file: _File, root: Path) -> Installed:
    path = root / file.path
    try:
        change = _change(path, file)
        if change in (FileChange.CREATED, FileChange.UPDATED):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text, encoding="utf-8")
            path.chmod(0o644)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}; run the command as root, or name another directory with --root"
        ) from error
    return Installed(str(path), change)


def _change(path: Path, file: _File) -> FileChange:
    if not path.exists():
        return FileChange.CREATED
    if file.edited:
        return FileChange.KEPT
    return FileChange.UNCHANGED if path.read_text(encoding="utf-8") == file.text else FileChange.UPDATED
