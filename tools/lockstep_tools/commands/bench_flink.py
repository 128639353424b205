"""`lockstep bench flink`: its options, and what it prints."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from lockstep.settings import Settings
from rich.console import Console, RenderableType
from rich.table import Table

from lockstep_tools.bench.peer.job import Sink
from lockstep_tools.commands.bench import Json, on_own_stack

if TYPE_CHECKING:
    from lockstep_tools.bench.peer.compare import Drain, Latency, Load, Measured
    from lockstep_tools.bench.peer.report import Figures

SinkOrAll = StrEnum("SinkOrAll", [*Sink, "all"])


def bench_flink(  # noqa: PLR0913, PLR0917 - each is an option of the command
    sink: Annotated[
        list[SinkOrAll] | None,
        typer.Option("--sink", help="Flink's; may be repeated; default: all."),
    ] = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Orders a second.")] = 50.0,
    warm_up: Annotated[float, typer.Option(min=0, help="Seconds that do not count.")] = 45.0,
    seconds: Annotated[float, typer.Option(min=5, help="After warming up.")] = 60.0,
    orders: Annotated[
        int, typer.Option(min=0, help="Orders of the backlog; 0: no drains.")
    ] = 30_000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 3,
    plot: Annotated[Path | None, typer.Option(help="Write a PNG of the latencies.")] = None,
    as_json: Json = False,
) -> None:
    """Stream mode `outbox` next to Apache Flink on the same change topic, by turns.

    The first time installs Flink in HOME/bench-flink (1 GB). Latency is from the database's
    commit to readable; a drain is of a backlog that is in the topic already.
    """
    from lockstep_tools.bench.peer.chart import save_chart
    from lockstep_tools.bench.peer.compare import Load, measure
    from lockstep_tools.bench.peer.install import install

    load = Load(rate, warm_up, seconds, orders, rounds)
    console = Console(highlight=False, stderr=as_json)
    flink = install(Settings.load().home, console.print)
    measured = on_own_stack(
        lambda settings, on_progress: measure(settings, flink, _sinks(sink), load, on_progress),
        _report,
        as_json=as_json,
    )
    if plot is not None:
        save_chart(measured.latencies, _latency_title(load), plot)
        console.print(f"drawn: {plot}")


def _sinks(chosen: list[SinkOrAll] | None) -> list[Sink]:
    named = {str(sink) for sink in chosen or [SinkOrAll.all]}
    return [sink for sink in Sink if sink in named or SinkOrAll.all in named]


def _report(measured: "Measured") -> Iterable[RenderableType]:
    if measured.drains:
        yield _drain_table(measured.load, measured.drains)
    yield _latency_table(measured.load, measured.latencies)
    late = max(one.late_seconds_max for rounds in measured.latencies.values() for one in rounds)
    yield (
        f"Latest order {late * 1000:,.0f} ms after it was due. Busy cores and memory are those of "
        "a side's own processes; other cores: PostgreSQL, Connect, Kafka, and all else that runs."
    )


def _drain_table(load: "Load", drains: "Mapping[str, list[Drain]]") -> Table:
    from lockstep_tools.bench.peer.report import drain_figures

    title = f"a backlog of {load.orders:,} orders; medians of {load.rounds} rounds"
    figures = {side: drain_figures(rounds) for side, rounds in drains.items()}
    table = _table(title, figures, "drains")
    for side, rounds in drains.items():
        each = [one.seconds for one in rounds]
        _add(table, side, figures[side], ".1f", f"{min(each):.1f} to {max(each):.1f}")
    return _with_ratios(table, figures)


def _latency_title(load: "Load") -> str:
    return (
        f"{load.rate:g} orders a second for {load.seconds:g} s after {load.warm_up_seconds:g} s; "
        f"medians of {load.rounds} rounds"
    )


def _latency_table(load: "Load", latencies: "Mapping[str, list[Latency]]") -> Table:
    from lockstep_tools.bench.peer.report import latency_figures

    figures = {side: latency_figures(rounds) for side, rounds in latencies.items()}
    table = _table(f"{_latency_title(load)}; ms", figures, "p50s")
    for side, rounds in latencies.items():
        each = [1000 * one.seconds.p50 for one in rounds]
        _add(table, side, figures[side], ",.0f", f"{min(each):,.0f} to {max(each):,.0f}")
    return _with_ratios(table, figures)


def _table(title: str, figures: "Mapping[str, Figures]", spread: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("side")
    for name in next(iter(figures.values())):
        table.add_column(name, justify="right")
    table.add_column(spread, justify="right")
    return table


def _add(table: Table, side: str, figures: "Figures", form: str, spread: str) -> None:
    """form: of all figures but cores, which have two places."""
    shown = (f"{value:{'.2f' if 'cores' in name else form}}" for name, value in figures.items())
    table.add_row(side, *shown, spread)


def _with_ratios(table: Table, figures: "Mapping[str, Figures]") -> Table:
    from lockstep_tools.bench.peer.report import ratios

    table.add_section()
    for side, found in ratios(figures).items():
        _add(table, f"times {side}", found, ".2f", "")
    return table
