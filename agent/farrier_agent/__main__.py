"""The command line of farrier-agent.pyz."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time

from farrier_agent import VERSION
from farrier_agent.host import AgentError, Host, say
from farrier_agent.install import install, uninstall
from farrier_agent.loop import Agent, Readings


def main() -> int:
    """Run one command. An error is one line, never a traceback."""
    parser = argparse.ArgumentParser(prog="farrier-agent", description="The agent of farrier on this machine.")
    parser.add_argument("--version", action="version", version=f"farrier-agent {VERSION}")
    parser.add_argument("--root", default="/", help="directory of the machine's file system, in a container")
    commands = parser.add_subparsers(required=True)
    for act, said in (
        (run, "work until the agent is uninstalled; the service does this"),
        (collect, "print facts and conditions as JSON, and send nothing"),
        (uninstall, "remove the service and all files of the agent"),
        (install, "copy the agent, and start the service with /etc/farrier-agent/config.json"),
    ):
        commands.add_parser(act.__name__, help=said).set_defaults(act=act)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        given.act(Host(given.root))
    except Exception as error:  # what nobody foresaw has its type; systemd starts the agent again
        is_foreseen = isinstance(error, (AgentError, OSError))
        say(str(error) if is_foreseen else f"{type(error).__name__}: {error}; please report this")
        return 1
    return 0


def run(host: Host) -> None:
    Agent(host).run()


def collect(host: Host) -> None:
    readings = Readings(host, host.config())
    readings.step(time.monotonic())
    while not readings.are_first:
        readings.wait(time.monotonic() + 1)
        readings.step(time.monotonic())
    print(json.dumps({"facts": readings.facts(), "conditions": readings.conditions()}, indent=2))
