"""The disk of the machine: Debian with cloud-init, built by mmdebstrap from the recipe beside this file.

A build takes about a minute, so the disk stays in the user's cache. Its name is a hash of the recipe and of the index
of Debian's packages, which Debian changes whenever it changes the version of a package.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.support import programs

RECIPE = Path(__file__).with_name("recipe")
SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = (
    "ca-certificates",
    "cloud-init",
    "dbus",
    "initramfs-tools",
    "iproute2",
    "kmod",
    "linux-image-cloud-amd64",
    "nvme-cli",
    "python3",
    "systemd-sysv",
    "udev",
)
# FILE of the recipe, and where the machine has it.
FILES = {
    "cloud.cfg": "/etc/cloud/cloud.cfg.d/99-test.cfg",
    "drain-hook": "/etc/farrier-agent/drain.d/10-scheduler",
    "journald.conf": "/etc/systemd/journald.conf.d/test.conf",
    "network": "/etc/systemd/network/10-all.network",
}
# Nobody reads them on the machine.
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")
# The drivers that the kernel needs before it has its root file system.
DRIVERS = ("ext4", "virtio_blk", "virtio_pci")
SIZE_BYTES = 1 << 30  # the files have 0.4 GB; the disk is sparse
MIRROR_SECONDS = 10.0


class Image(NamedTuple):
    """A disk with a root file system, and what starts it."""

    disk: Path
    kernel: Path
    initrd: Path


def built() -> Image:
    """The image of the recipe, from the cache or newly built. Skips the test without the programs to build it."""
    recipe = _recipe()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "farrier-tests"
    place = cache / f"machine-{recipe}-{_index() or '*'}"
    found = sorted(cache.glob(place.name), key=lambda path: path.stat().st_mtime)
    if not found and place.name.endswith("*"):
        programs.lacks(f"{MIRROR} does not respond, and {cache} has no image", "mmdebstrap")
    if not found:
        _build(place)
        _remove_others(cache, place)
    return _image(found[-1] if found else place)


def _image(place: Path) -> Image:
    return Image(place / "disk", place / "vmlinuz", place / "initrd.img")


def _recipe() -> str:
    """A hash of everything that determines the disk, except for the packages."""
    hashed = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(RECIPE.iterdir()):
        hashed.update(path.name.encode() + path.read_bytes())
    return hashed.hexdigest()[:16]


def _index() -> str | None:
    """A hash of the signed index of Debian's packages; None if the mirror does not respond."""
    try:
        answer = httpx.get(f"{MIRROR}/dists/{SUITE}/InRelease", timeout=MIRROR_SECONDS, follow_redirects=True)
        return hashlib.sha256(answer.raise_for_status().content).hexdigest()[:16]
    except httpx.HTTPError:
        return None


def _build(place: Path) -> None:
    """Build the disk beside its place, so that an interrupted build leaves no image."""
    bootstrap, resize, tune = (programs.program(name) for name in ("mmdebstrap", "resize2fs", "tune2fs"))
    programs.program("genext2fs")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="building-") as name:
        made = Path(name) / "image"
        made.mkdir()
        # The suffix tells mmdebstrap the format.
        disk = made / "disk.ext2"
        _run(bootstrap, "--quiet", *_options(made), SUITE, str(disk), f"deb {MIRROR} {SUITE} main")
        os.truncate(disk, SIZE_BYTES)
        _run(resize, str(disk))
        # The machine's power is cut: without a journal, it would lose files.
        _run(tune, "-j", str(disk))
        disk = disk.rename(made / "disk")
        made.rename(place)


def _options(made: Path) -> list[str]:
    units = " ".join((RECIPE / "masked").read_text().split())
    drivers = "\\n".join(DRIVERS)
    hooks = [
        *(f"upload {RECIPE / name} {where}" for name, where in FILES.items()),
        'chmod 755 "$1/etc/farrier-agent/drain.d/10-scheduler"',
        f'printf "{drivers}\\n" >"$1/etc/initramfs-tools/modules"',
        'echo MODULES=list >"$1/etc/initramfs-tools/conf.d/test"',
        'chroot "$1" update-initramfs -u',
        'chroot "$1" systemctl --quiet enable systemd-networkd',
        f'chroot "$1" systemctl --quiet mask {units}',
        f"download /vmlinuz {made / 'vmlinuz'}",
        f"download /initrd.img {made / 'initrd.img'}",
    ]
    directories = " ".join(f'"$1{Path(where).parent}"' for where in FILES.values())
    return [
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        '--aptopt=Acquire::Languages "none"',
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT),
        *(f"--customize-hook={hook}" for hook in (f"mkdir -p {directories}", *hooks)),
    ]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"


def _remove_others(cache: Path, place: Path) -> None:
    for other in cache.glob("machine-*"):
        if other != place:
            shutil.rmtree(other)
