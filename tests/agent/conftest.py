"""Fixtures of the tests of the agent: its archive, Python of several versions, a machine, a door, and stand-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import build_agent
from tests.support.agent_machine import Machine
from tests.support.agents_door import Door, serving

DATA = Path(__file__).parents[1] / "data" / "agent"
PYTHONS = ("3.9", "3.11", "3.13")


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """farrier-agent.pyz of this checkout."""
    path = tmp_path_factory.mktemp("agent") / "farrier-agent.pyz"
    build_agent.write(path)
    return path


@pytest.fixture(params=PYTHONS)
def python(request: pytest.FixtureRequest) -> str:
    """A Python of each version that the agent supports, as far as this machine has it."""
    version: str = request.param
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    # PYENV_ROOT may be another user's, as under runuser.
    readable = os.access(pyenv, os.R_OK | os.X_OK)
    installed = [str(path) for path in pyenv.glob(f"versions/{version}.*/bin/python")] if readable else []
    for found in (*installed, shutil.which(f"python{version}")):
        # A command of pyenv may exist although its version is not chosen.
        if found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
            return found
    pytest.skip(f"Python {version} is not installed")


@pytest.fixture
def machine(tmp_path: Path, archive: Path) -> Machine:
    """A machine without GPUs and disks."""
    root = tmp_path / "machine"
    root.mkdir()
    made = Machine(root, archive, sys.executable)
    made.configure("https://agents.example:9466")
    return made


@pytest.fixture
def door() -> Iterator[Door]:
    """A door without TLS, on loopback."""
    with serving(Door()) as opened:
        yield opened


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled stand-ins: NVML, NVML of an old driver, CUDA, and adjtimex."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed, so no stand-in for NVML can be compiled")
    directory = tmp_path_factory.mktemp("libraries")
    for source, target, *options in (
        ("nvml.c", "new/libnvidia-ml.so.1"),
        ("nvml.c", "old/libnvidia-ml.so.1", "-DOLD_DRIVER"),
        ("cuda.c", "new/libcuda.so.1"),
        ("adjtimex.c", "adjtimex.so"),
    ):
        (directory / target).parent.mkdir(exist_ok=True)
        command = ["gcc", "-shared", "-fPIC", "-w", *options, "-o", str(directory / target), str(DATA / source)]
        subprocess.run(command, check=True)
    return directory


@pytest.fixture
def gpus(machine: Machine, libraries: Path) -> Machine:
    """A machine with eight GPUs, and NVIDIA's driver."""
    for index in range(8):
        machine.gpu(f"0000:1{index}:00.0")
    machine.environment["LD_LIBRARY_PATH"] = str(libraries / "new")
    return machine


@pytest.fixture
def start() -> Iterator[Callable[[Machine], subprocess.Popen[str]]]:
    """Starts the agent of a machine, which ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(machine: Machine) -> subprocess.Popen[str]:
        started.append(machine.start())
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()
