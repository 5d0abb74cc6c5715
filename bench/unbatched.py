"""`python -m bench.unbatched serve --agents`: a server for agents with one statement for each heartbeat, for
comparison."""

from __future__ import annotations

from farrier import cli
from farrier.protocols import AgentCalls
from farrier.web.agents import app
from farrier.web.agents.batches import Batches


class Unbatched(Batches):
    """Sends each heartbeat at once, in a statement of its own."""

    def __init__(self, calls: AgentCalls) -> None:
        super().__init__(calls, collect_seconds=0.0, most_in_a_batch=1, sleep=lambda _: None)


if __name__ == "__main__":
    vars(app)["Batches"] = Unbatched
    cli.main()
