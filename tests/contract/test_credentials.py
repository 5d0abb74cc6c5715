"""Credential references: what each scheme accepts, what is refused without a read, and that no text shows a secret."""

from __future__ import annotations

import itertools
import json
import os
import threading
from pathlib import Path

import pytest
import structlog.testing
from rich.pretty import pretty_repr

from farrier.config import CredentialsConfig
from farrier.errors import CredentialError
from farrier.model.credential import Credential
from farrier.services.credentials.files import LARGEST_SECRET_BYTES, read_file
from farrier.services.credentials.resolver import Credentials

PASSWORD = "s3kr1t:with\"quotes'and blanks in it"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "creds"
    directory.mkdir()
    return directory


def store(root: Path, *, environ: dict[str, str] | None = None) -> Credentials:
    return Credentials(CredentialsConfig(file_roots=(str(root),)), environ=environ or {})


async def refusal(credentials: Credentials, reference: str) -> str:
    with pytest.raises(CredentialError) as refused:
        await credentials.resolve(reference)
    text = f"{refused.value} {refused.value!r} {refused.value.__cause__!r}"
    assert PASSWORD not in text
    assert "s3kr1t" not in text
    return str(refused.value)


@pytest.mark.parametrize(
    "content",
    [
        f"admin\n{PASSWORD}",
        f"admin\n{PASSWORD}\n",
        f"admin\r\n{PASSWORD}\r\n",
        '{"username": "admin", "password": "s3kr1t:with\\"quotes\'and blanks in it"}',
        '\n {"password": "s3kr1t:with\\"quotes\'and blanks in it", "username": "admin", "note": "rack 4"}\n',
    ],
)
async def test_a_file_holds_two_lines_or_json(root: Path, content: str) -> None:
    (root / "bmc").write_text(content, newline="")
    credential = await store(root).resolve(f"file:{root}/bmc")
    assert (credential.username, credential.password) == ("admin", PASSWORD)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "found 1 line"),
        (b"s3kr1t", "found 1 line"),
        (b"admin\ns3kr1t\nmore", "found 3 lines"),
        (b"admin\n\n", "found 1 line"),
        (b"\ns3kr1t\n", "found 1 line"),
        (b"ad:min\ns3kr1t\n", "colon"),
        (b'{"username": "admin", "secret": "s3kr1t"}', "password"),
        (b'{"username": "admin", "password": ["s3kr1t"]}', "password"),
        (b'{"username": "admin", "password": "s3kr1t', "truncated"),
        (b"admin\n\xff\xfes3kr1t", "not UTF-8"),
        (b"admin\n" + b"s3kr1t" * LARGEST_SECRET_BYTES, "larger than"),
    ],
)
async def test_a_file_with_anything_else_is_refused_without_its_content(root: Path, content: bytes, says: str) -> None:
    (root / "bmc").write_bytes(content)
    assert says in await refusal(store(root), f"file:{root}/bmc")


FAULTS = {
    " s3kr1t": "begins with white space",
    "s3kr1t ": "ends with white space",
    "s3kr1t\t": "ends with white space",
    "s3kr1t\N{NO-BREAK SPACE}": "ends with white space",
    "s3kr1t\r": "ends with white space",
    "s3k\tr1t": "control character",
    "s3k\0r1t": "control character",
    "s3k\x7fr1t": "control character",
    "s3k\x9br1t": "control character",
    "\ufeffs3kr1t": "byte order mark",
}


@pytest.mark.parametrize("secret", FAULTS)
async def test_stray_characters_are_refused_with_the_name_of_the_fault(root: Path, secret: str) -> None:
    """Tested in user name and password, in JSON and in a variable. The text does not repeat the secret."""
    says = FAULTS[secret]
    for what, username, password in (("password", "admin", secret), ("user name", secret, "s3kr1t")):
        said = f"the {what} {says}" if says.startswith(("begins", "ends")) else says
        (root / "json").write_text(json.dumps({"username": username, "password": password}))
        variable = store(root, environ={"FARRIER_SECRET_BMC": f"{username}:{password}"})
        for text in (
            await refusal(store(root), f"file:{root}/json"),
            await refusal(variable, "env:FARRIER_SECRET_BMC"),
        ):
            assert said in text, (what, text)


@pytest.mark.parametrize("secret", [secret for secret, says in FAULTS.items() if "control" in says])
async def test_control_characters_within_the_lines_of_a_file_are_refused(root: Path, secret: str) -> None:
    (root / "bmc").write_text(f"admin\n{secret}\n", newline="")
    assert "control character" in await refusal(store(root), f"file:{root}/bmc")


AROUND = {
    "{}\n\n": "white space",
    "{}\r\n\r\n": "white space",
    "{} \n": "white space",
    "\n\t{}": "white space",
    "{}\r": "white space",
    "{}\N{NO-BREAK SPACE}\n": "white space",
    "\ufeff{}\n": "a byte order mark",
    "\ufeff {}\n": "a byte order mark and white space",
}


@pytest.mark.parametrize("around", AROUND)
async def test_what_editors_add_around_a_secret_in_a_file_is_ignored_with_one_warning(root: Path, around: str) -> None:
    (root / "bmc").write_text(around.format("admin\ns3kr1t"), newline="")
    (root / "token").write_text(around.format("t0k3n"), newline="")
    credentials = store(root, environ={"CREDENTIALS_DIRECTORY": str(root)})
    with structlog.testing.capture_logs() as logged:
        for _ in range(2):
            found = await credentials.resolve(f"file:{root}/bmc")
            assert (found.username, found.password) == ("admin", "s3kr1t")
            assert await credentials.token("systemd:token") == "t0k3n"
    assert [(line["event"], line["reference"], line["ignored"]) for line in logged] == [
        ("credential.trimmed", reference, AROUND[around]) for reference in (f"file:{root}/bmc", "systemd:token")
    ]
    assert "s3kr1t" not in str(logged) and "t0k3n" not in str(logged)


@pytest.mark.parametrize("content", ["admin\ns3kr1t", "admin\ns3kr1t\n", "admin\r\ns3kr1t\r\n"])
async def test_a_file_without_such_characters_causes_no_warning(root: Path, content: str) -> None:
    (root / "bmc").write_text(content, newline="")
    with structlog.testing.capture_logs() as logged:
        await store(root).resolve(f"file:{root}/bmc")
    assert logged == []


async def test_a_byte_order_mark_before_json_is_ignored(root: Path) -> None:
    (root / "bmc").write_text('\ufeff{"username": "admin", "password": "s3kr1t"}')
    assert (await store(root).resolve(f"file:{root}/bmc")).password == "s3kr1t"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("s3k\x1br1t\n", "the token has a control character"),
        ('{"token": "s3kr1t\\n"}', "the token ends with white space"),
    ],
)
async def test_a_token_s_fault_is_named_too(root: Path, content: str, says: str) -> None:
    (root / "token").write_text(content, newline="")
    with pytest.raises(CredentialError) as refused:
        await store(root).token(f"file:{root}/token")
    assert says in refused.value.reason
    assert "s3kr1t" not in f"{refused.value!r} {refused.value.__cause__!r}"


async def test_a_file_outside_the_roots_is_refused_in_every_notation(root: Path) -> None:
    outside = root.parent / "outside"
    outside.write_text(f"admin\n{PASSWORD}\n")
    (root / "link").symlink_to(outside)
    (root / "directory").symlink_to(root.parent)
    neighbour = root.parent / "creds-of-others"
    neighbour.mkdir()
    (neighbour / "bmc").write_text(f"admin\n{PASSWORD}\n")
    for name in (
        f"{outside}",
        f"{root}/../outside",
        f"{root}/link",
        f"{root}/directory/outside",
        f"{neighbour}/bmc",
        f"{root.parent}/missing",
        f"{root}/directory/missing",
    ):
        assert "outside the configured directories" in await refusal(store(root), f"file:{name}")


async def test_a_symlink_that_stays_inside_is_followed(root: Path) -> None:
    """Kubernetes and systemd both swap secrets by symlink."""
    (root / "2026-01").write_text(f"admin\n{PASSWORD}\n")
    (root / "current").symlink_to("2026-01")
    assert (await store(root).resolve(f"file:{root}/current")).password == PASSWORD


async def test_a_symlinked_root_is_the_same_as_its_target(root: Path) -> None:
    (root / "bmc").write_text(f"admin\n{PASSWORD}\n")
    link = root.parent / "link"
    link.symlink_to(root)
    for configured, named in ((link, root), (root, link)):
        assert (await store(configured).resolve(f"file:{named}/bmc")).password == PASSWORD


def test_a_read_during_a_rotation_returns_the_old_or_the_new_secret(root: Path) -> None:
    """A writer replaces the file by renaming another one, again and again during the reads."""
    key, ended = root / "key", threading.Event()
    key.write_text("key 0")

    def rotate() -> None:
        for number in itertools.count(1):
            (root / "next").write_text(f"key {number}")
            (root / "next").rename(key)
            if ended.is_set():
                return

    rotating = threading.Thread(target=rotate)
    rotating.start()
    try:
        for _ in range(2_000):
            assert read_file("file:key", str(key), roots=(root,)).startswith("key ")
    finally:
        ended.set()
        rotating.join()


async def test_a_path_that_is_no_readable_regular_file_is_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "loop").symlink_to("loop")
    for name, says in {
        "fifo": "not a regular file",
        "missing": "No such file",
        ".": "Is a directory",
        "loop": "loop",
        "a\0b": "null byte",
    }.items():
        assert says in await refusal(store(root), f"file:{root}/{name}")
    assert "must be absolute" in await refusal(store(root), "file:creds/bmc")


async def test_no_file_is_read_until_a_directory_is_configured(root: Path) -> None:
    (root / "bmc").write_text(f"admin\n{PASSWORD}\n")
    assert "no directory" in await refusal(Credentials(CredentialsConfig()), f"file:{root}/bmc")


@pytest.mark.parametrize("value", ["admin:s3kr1t:x", '{"username": "admin", "password": "s3kr1t:x"}'])
async def test_a_variable_with_the_prefix_is_resolved(root: Path, value: str) -> None:
    credentials = store(root, environ={"FARRIER_SECRET_BMC": value})
    credential = await credentials.resolve("env:FARRIER_SECRET_BMC")
    assert (credential.username, credential.password) == ("admin", "s3kr1t:x")


async def test_a_variable_without_the_prefix_or_the_form_is_refused(root: Path) -> None:
    credentials = store(root, environ={"AWS_SECRET": "admin:s3kr1t", "FARRIER_SECRET_BMC": "s3kr1t"})
    assert "start with FARRIER_SECRET_" in await refusal(credentials, "env:AWS_SECRET")
    assert "no colon" in await refusal(credentials, "env:FARRIER_SECRET_BMC")
    assert "is not set" in await refusal(credentials, "env:FARRIER_SECRET_OTHER")


async def test_a_systemd_credential_is_read_from_the_units_directory(root: Path) -> None:
    (root / "bmc").write_text(f"admin\n{PASSWORD}\n")
    (root.parent / "outside").write_text(f"admin\n{PASSWORD}\n")
    (root / "link").symlink_to("../outside")
    credentials = Credentials(CredentialsConfig(), environ={"CREDENTIALS_DIRECTORY": str(root)})
    assert (await credentials.resolve("systemd:bmc")).password == PASSWORD
    assert "must not contain a slash" in await refusal(credentials, "systemd:../outside")
    assert "outside" in await refusal(credentials, "systemd:link")
    assert "outside" in await refusal(credentials, "systemd:..")
    assert "CREDENTIALS_DIRECTORY is not set" in await refusal(store(root), "systemd:bmc")


@pytest.mark.parametrize("reference", ["", "s3kr1t", ":s3kr1t", "file:"])
async def test_an_invalid_reference_is_refused_and_not_repeated(root: Path, reference: str) -> None:
    """The text may be the secret itself, put where its reference belongs."""
    assert "scheme:place" in await refusal(store(root), reference)


@pytest.mark.parametrize("reference", ["aws:bmc/s3kr1t", "admin:s3kr1t", "s3kr1t:rest"])
async def test_an_unknown_scheme_is_refused_with_the_known_schemes(root: Path, reference: str) -> None:
    """The text may be the secret itself, so the refusal repeats no part of it."""
    assert "file:, env:, systemd: or vault:" in await refusal(store(root), reference)


async def test_without_a_configured_vault_a_vault_reference_is_refused(root: Path) -> None:
    text = await refusal(store(root), "vault:farrier/bmc/s3kr1t")
    assert "vault.address" in text


# --- secrets without a user name


@pytest.mark.parametrize("content", ["t0k3n", "t0k3n\n", "t0k3n\r\n", '{"token": "t0k3n"}\n'])
async def test_a_token_is_one_line_or_json(root: Path, content: str) -> None:
    (root / "token").write_text(content, newline="")
    assert await store(root).token(f"file:{root}/token") == "t0k3n"
    assert await store(root, environ={"FARRIER_SECRET_API": content}).token("env:FARRIER_SECRET_API") == "t0k3n"


async def test_a_token_may_have_a_colon(root: Path) -> None:
    assert await store(root, environ={"FARRIER_SECRET_API": "a:b"}).token("env:FARRIER_SECRET_API") == "a:b"


@pytest.mark.parametrize(
    "content",
    ["", "\n", "admin\ns3kr1t", "s3kr1t s3kr1t", "s3kr1t\0", "s3kr1tü", '{"secret": "s3kr1t"}', '{"token": ""}'],
)
async def test_an_invalid_token_is_refused_and_not_repeated(root: Path, content: str) -> None:
    (root / "token").write_text(content)
    with pytest.raises(CredentialError) as refused:
        await store(root).token(f"file:{root}/token")
    assert "s3kr1t" not in f"{refused.value!r} {refused.value.__cause__!r}"
    assert "token" in refused.value.reason


async def test_a_rotated_secret_has_another_version_at_the_next_call(root: Path) -> None:
    (root / "bmc").write_text("admin\nold\n")
    credentials, reference = store(root), f"file:{root}/bmc"
    old = await credentials.version(reference)
    assert old == await credentials.version(reference) == (await store(root).resolve(reference)).version
    (root / "bmc").write_text("admin\nnew\n")
    assert await credentials.version(reference) != old
    assert (await credentials.resolve(reference)).password == "new"


async def test_versions_reveal_neither_the_secret_nor_that_two_are_equal(root: Path) -> None:
    (root / "a").write_text(f"admin\n{PASSWORD}\n")
    (root / "b").write_text(f"admin\n{PASSWORD}\n")
    a, b = [await store(root).version(f"file:{root}/{name}") for name in "ab"]
    assert a != b
    assert len(a) == len(b) == 8


def test_representations_mask_the_secret() -> None:
    credential = Credential(username="admin", password=PASSWORD, version="0")
    for text in (repr(credential), str(credential), pretty_repr(credential)):
        assert "s3kr1t" not in text
