"""The files of the server's certificate: an error names their fault, and a running server keeps its certificate."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from farrier import clock
from farrier.config import HttpConfig
from farrier.errors import ConfigError
from farrier.sim.certificates import Authority, ServerFiles
from farrier.web.tls import Certificate

AUTHORITY = Authority("test", now=clock.wall())


@pytest.fixture
def files(tmp_path: Path) -> ServerFiles:
    return AUTHORITY.issue(tmp_path, hosts=("127.0.0.1",))


def test_unusable_files_are_refused_with_the_setting_and_the_path(files: ServerFiles, tmp_path: Path) -> None:
    cert, key, other = str(files.certificate), str(files.key), str(tmp_path / "other.pem")
    with pytest.raises(ConfigError, match=r"http.tls_cert: '.*other.pem' cannot be read: No such file"):
        Certificate(other, key)
    with pytest.raises(ConfigError, match=r"http.tls_key: '.*other.pem' cannot be read: No such file"):
        Certificate(cert, other)
    Path(other).write_text("no PEM")
    with pytest.raises(ConfigError, match="expected a certificate and its key in PEM, without a password") as refused:
        Certificate(cert, other)
    assert "\n" not in str(refused.value)


def test_a_pair_that_does_not_match_is_refused_and_the_present_certificate_stays(
    files: ServerFiles, tmp_path: Path
) -> None:
    served = Certificate(str(files.certificate), str(files.key))
    (tmp_path / "second").mkdir()
    other = AUTHORITY.issue(tmp_path / "second", hosts=("127.0.0.1",))
    shutil.copy(other.certificate, files.certificate)
    with pytest.raises(ConfigError, match="KEY_VALUES_MISMATCH"):
        served.reload()
    shutil.copy(other.key, files.key)
    served.reload()


def test_a_certificate_that_each_client_refuses_is_loaded_and_has_a_fault(tmp_path: Path) -> None:
    now, day = clock.wall(), timedelta(days=1)
    faults = []
    for authority, lifetime in (
        (AUTHORITY, day),
        (AUTHORITY, -day),
        (Authority("later", now=now + day), 2 * day),
    ):
        made = authority.issue(tmp_path, hosts=("127.0.0.1",), lifetime=lifetime)
        faults.append(Certificate(str(made.certificate), str(made.key)).fault())
    assert faults == [None, "certificate has expired", "certificate is not yet valid"]


def test_a_certificate_and_its_key_are_set_together() -> None:
    with pytest.raises(ValueError, match="only one of tls_cert and tls_key is set"):
        HttpConfig(tls_cert="cert.pem")
    with pytest.raises(ValueError, match="only one of tls_cert and tls_key is set"):
        HttpConfig(tls_key="key.pem")
