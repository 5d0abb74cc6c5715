"""Builds farrier-agent.pyz. The result depends only on the sources: not on the machine, the time or the Python.

`make agent` runs this module, and so does each build of farrier's wheel (`hatch_build.py`). nvidia-ml-py comes from
PyPI, as a requirement of the build; its file goes into the archive unchanged.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import sys
import zipfile
from pathlib import Path

SOURCES = Path(__file__).parent / "farrier_agent"
TARGET = Path(__file__).parents[1] / "farrier" / "agent" / "farrier-agent.pyz"
# pynvml.py of the release that pyproject.toml names.
NVML = "d3233c78cd3f17bda97850346eba30fa88f1d6b295cee90fa7ec1c6cbf291e5b"
_INTERPRETER = b"#!/usr/bin/env python3\n"
_MAIN = """\
import sys

from farrier_agent.__main__ import main

sys.exit(main())
"""
# The earliest time that a ZIP file can express.
_TIME = (1980, 1, 1, 0, 0, 0)


def content() -> bytes:
    """Return the archive. Raises SystemExit if nvidia-ml-py is missing or is another release."""
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise SystemExit("nvidia-ml-py is not installed; install the release that pyproject.toml names")
    nvml = Path(found.origin).read_bytes()
    actual = hashlib.sha256(nvml).hexdigest()
    if actual != NVML:
        raise SystemExit(f"{found.origin}: expected the SHA-256 {NVML}, got {actual}; see pyproject.toml")
    files = {f"farrier_agent/{path.name}": path.read_bytes() for path in SOURCES.glob("*.*")}
    files = {**files, "pynvml.py": nvml, "__main__.py": _MAIN.encode()}
    packed = io.BytesIO(_INTERPRETER)
    packed.seek(0, io.SEEK_END)
    # Not compressed: releases of zlib compress differently.
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, _TIME)
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, files[name])
    return packed.getvalue()


def write(target: Path = TARGET) -> bytes:
    """Write the archive, if it differs, and return it."""
    built = content()
    if not target.exists() or target.read_bytes() != built:
        partial = target.with_suffix(".new")
        partial.write_bytes(built)
        partial.replace(target)
    return built


if __name__ == "__main__":
    print(hashlib.sha256(write(*map(Path, sys.argv[1:]))).hexdigest())
