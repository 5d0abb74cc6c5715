"""`python -m bench`: measures the requested figures, prints them, and fails if a figure misses its target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import anyio
import typer

from bench import report, yardstick
from bench.agents import AGENTS
from bench.bmc_polls import BMC_POLL
from bench.bmcs import BMC_DEAD
from bench.endurance import OLD_SNAPSHOT, RSS
from bench.figures import Benchmark, Figure, Readings, judge
from bench.flood import FLOOD
from bench.ground import ground, server, settings
from bench.history import HISTORY
from bench.maas_polls import MAAS_POLLS
from bench.moves import LIFE, TRANSITIONS
from bench.onboarding import ONBOARDING
from bench.onboarding_bare import ONBOARDING_BARE
from bench.page import PAGE
from bench.reaction import REACTION
from bench.replicas import TAKEOVER, TWO
from bench.rest import MILLION, REST, REST_BMC
from bench.start import START
from bench.sweep import SWEEP
from bench.wakes import WAKES
from bench.whole import WHOLE
from farrier import log
from farrier.errors import ExitCode, FarrierError

BENCHMARKS = (
    SWEEP,
    TRANSITIONS,
    LIFE,
    REACTION,
    WAKES,
    REST,
    REST_BMC,
    TWO,
    TAKEOVER,
    START,
    RSS,
    OLD_SNAPSHOT,
    MILLION,
    BMC_DEAD,
    BMC_POLL,
    MAAS_POLLS,
    ONBOARDING,
    ONBOARDING_BARE,
    HISTORY,
    PAGE,
    FLOOD,
    AGENTS,
    WHOLE,
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Benchmarks: " + ", ".join(benchmark.name for benchmark in BENCHMARKS))
def main(
    only: Annotated[
        str, typer.Option(metavar="NAME[,NAME]", help="Run only these benchmarks. Default: all except `million`.")
    ] = "",
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Number of nodes. Default: the number of each benchmark.")
    ] = None,
    runs: Annotated[
        int, typer.Option(min=1, help="Number of runs of each benchmark. A figure is the median of the runs.")
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON to standard output.")] = False,
    dsn: Annotated[
        str | None,
        typer.Option(
            help="Database to use instead of an embedded server. It must not have a schema farrier or yardstick."
        ),
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List the benchmarks and their targets, and exit.")] = False,
) -> None:
    """Measure farrier on a PostgreSQL with fsync on. Exit code 1: a figure misses its target."""
    chosen = _chosen(only)
    if only_list:
        report.show_list(chosen if only else BENCHMARKS)
        return
    log.configure(log.Level.WARNING)
    try:
        with server(dsn) as found:
            taken = anyio.run(_take, chosen, found, nodes, runs, backend_options={"use_uvloop": True})
    except FarrierError as error:
        typer.echo(f"bench: {error}", err=True)
        raise typer.Exit(error.exit_code) from error
    (report.show_json if as_json else report.show_table)(taken)
    if not all(figure.met for figure in taken.figures):
        raise typer.Exit(ExitCode.FAILED)


def _chosen(only: str) -> Sequence[Benchmark]:
    names = [name for name in only.split(",") if name]
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise typer.BadParameter(
            f"no benchmark is named {unknown[0]!r}; expected one of: {', '.join(known)}", param_hint="--only"
        )
    return [known[name] for name in names] or [benchmark for benchmark in BENCHMARKS if not benchmark.long]


async def _take(benchmarks: Sequence[Benchmark], dsn: str, nodes: int | None, runs: int) -> report.Report:
    before = await _take_yardstick(dsn)
    figures: list[Figure] = []
    for benchmark in benchmarks:
        figures += await _take_one(benchmark, dsn, nodes or benchmark.nodes, runs)
    measured = yardstick.Yardstick(before, after=await _take_yardstick(dsn))
    return report.report(figures, measured, await settings(dsn))


async def _take_yardstick(dsn: str) -> yardstick.Speed:
    speed = await yardstick.take(dsn)
    _tell(f"yardstick: {speed.transitions_per_second:,.0f} transitions/s, {speed.reaction_p50_ms:.3g} ms reaction")
    return speed


async def _take_one(benchmark: Benchmark, dsn: str, nodes: int, runs: int) -> Sequence[Figure]:
    readings: list[Readings] = []
    async with ground(dsn) as clean:
        _tell(f"{benchmark.name}: {nodes:,} nodes")
        async with benchmark.open(clean, nodes) as measure:
            for run in range(1, runs + 1):
                readings.append(await measure())
                said = ", ".join(f"{name} {reading.value:,.4g}" for name, reading in readings[-1].items())
                _tell(f"{benchmark.name}: run {run} of {runs}: {said}")
    return judge(benchmark, nodes, readings)


def _tell(progress: str) -> None:
    typer.echo(progress, err=True)


if __name__ == "__main__":
    app()
