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
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="work until the agent is uninstalled; the service does this")
    commands.add_parser("collect", help="print facts and conditions as JSON, and send nothing")
    commands.add_parser("uninstall", help="remove the service and all files of the agent")
    commands.add_parser("install", help="copy the agent, and start the service with /etc/farrier-agent/config.json")
    given = parser.parse_args()
    host = Host(given.root)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        if given.command == "run":
            Agent(host).run()
        elif given.command == "collect":
            _collect(host)
        elif given.command == "uninstall":
            uninstall(host)
        else:
            install(host)
    except (AgentError, OSError) as error:
        say(str(error))
        return 1
    except Exception as error:  # what nobody foresaw; systemd starts the agent again
        say(f"{type(error).__name__}: {error}; please report this")
        return 1
    return 0


def _collect(host: Host) -> None:
    readings = Readings(host, host.config())
    readings.step(time.monotonic())
    while not readings.are_first:
        readings.wait(time.monotonic() + 1)
        readings.step(time.monotonic())
    print(json.dumps({"facts": readings.facts(), "conditions": readings.conditions()}, indent=2))


if __name__ == "__main__":
    sys.exit(main())
