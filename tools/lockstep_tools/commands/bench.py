"""`lockstep bench`: benchmarks, beside a peer in one run where there is one."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from rich.console import Console, RenderableType
from rich.table import Table

if TYPE_CHECKING:
    from lockstep_tools.bench import large, latency, parity, throughput
    from lockstep_tools.bench.batch import Measured

group = typer.Typer(no_args_is_help=True)

_Measured = TypeVar("_Measured")

ModeOrAll = StrEnum("ModeOrAll", [*StreamMode, "all"])
Mode = Annotated[
    list[ModeOrAll] | None,
    typer.Option("--mode", help="May be repeated; `all` is every mode."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    from lockstep_tools.commands.bench_appends import bench_appends
    from lockstep_tools.commands.bench_flink import bench_flink
    from lockstep_tools.commands.bench_rows import bench_rows

    group.command("appends")(bench_appends)
    group.command("flink")(bench_flink)
    group.command("rows")(bench_rows)
    app.add_typer(group, name="bench", help="Benchmarks, next to a peer if there is one.")


@group.command("batch")
def bench_batch(
    orders: Annotated[
        int, typer.Option(min=24, help="Orders of the day that is read.")
    ] = 1_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 5,
) -> None:
    """The hourly run in both read modes beside PostgreSQL's COPY of the same query."""
    from pizzeria.shop.bulk import START

    from lockstep_tools.bench.batch import measure
    from lockstep_tools.bench.database import filled_database

    console = Console(highlight=False)
    console.print(f"preparing a PostgreSQL of its own with {orders:,} orders")
    with filled_database(Settings.load(), orders) as settings:
        measured = measure(settings, START, orders, rounds, console.print)
    console.print(_table(measured, rounds))
    console.print(
        f"Paid once a process: session start {measured.session_seconds:.1f} s, and the first "
        f"hour of a cold JVM {measured.cold_hour_seconds:.1f} s.\n"
        "Peak memory of Python and JVM together while all orders were read: "
        + ", ".join(f"{mode} {mib:,.0f} MiB" for mode, mib in measured.peak_mib.items())
        + "."
    )


def _table(measured: "Measured", rounds: int) -> Table:
    from lockstep_tools.bench.batch import ALL, COPY, NEW_HOUR

    table = Table(title=f"medians of {rounds} rounds", title_justify="left")
    for name in ("what", "rows"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for name in ("how", "seconds", "fastest to slowest", "rows/s", "times COPY"):
        table.add_column(name, justify="left" if name == "how" else "right")
    for (what, how), seconds in sorted(measured.seconds.items()):
        median, rows = measured.median(what, how), measured.rows(what)
        peer = measured.median(ALL if what == ALL else NEW_HOUR, COPY)
        table.add_row(
            what,
            f"{rows:,}",
            how,
            f"{median:.2f}",
            f"{min(seconds):.2f} to {max(seconds):.2f}",
            f"{rows / median:,.0f}",
            f"{median / peer:.2f}",
        )
    return table


@group.command("layout")
def bench_layout(
    days: Annotated[int, typer.Option(min=1, help="Days, of 12 hours with rows each.")] = 365,
    rows: Annotated[int, typer.Option(min=1, help="Rows of an hour.")] = 5,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 3,
) -> None:
    """An hourly table in partitions of days, and one in those of days and hours as before."""
    from lockstep_tools.bench.layout import BY_DAY, BY_HOUR, measure

    console = Console(highlight=False)
    measured = measure(Settings.load(), days, rows, rounds, console.print)
    table = Table(title=f"seconds, medians of {rounds} rounds", title_justify="left")
    for name in ("what", f"by {BY_DAY}", f"by {BY_HOUR}", f"times {BY_HOUR}"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for what in dict.fromkeys(what for what, _ in measured.seconds):
        seconds, peer = measured.median(what, BY_DAY), measured.median(what, BY_HOUR)
        table.add_row(what, f"{seconds:.2f}", f"{peer:.2f}", f"{seconds / peer:.2f}")
    console.print(table)
    files = ", ".join(f"{count:,} by {layout}" for layout, count in measured.files.items())
    console.print(f"{measured.rows:,} rows, {measured.hour_rows:,} in an hour; files: {files}")


@group.command("page")
def bench_page(
    pipelines: Annotated[int, typer.Option(min=1, help="Pipelines.")] = 20,
    hours: Annotated[int, typer.Option(min=1, help="Hours in the ledger of each.")] = 24 * 365,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 5,
) -> None:
    """The page Parity over a year of hours and many pipelines."""
    from lockstep_tools.bench.page import measure

    console = Console(highlight=False)
    measured = measure(Settings.load(), pipelines, hours, rounds)
    table = Table(title=f"seconds, medians of {rounds} rounds", title_justify="left")
    table.add_column("what")
    table.add_column("seconds", justify="right")
    for what in measured.seconds:
        table.add_row(what, f"{measured.median(what):.2f}")
    console.print(table)
    console.print(f"{pipelines} pipelines, {measured.lines:,} lines in the ledger of each")


@group.command("cold-start")
def bench_cold_start(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are reported.")] = 5,
) -> None:
    """Drivers that start from the archive of Spark's classes, beside such that do not."""
    from lockstep_tools.bench.cold_start import measure

    console = Console(highlight=False)
    measured = measure(Settings.load(), rounds, console.print)
    table = Table(title=f"seconds, medians of {rounds} rounds", title_justify="left")
    for name in ("driver", "archive"):
        table.add_column(name)
    for name in ("session", "first Delta table", "together", "times without"):
        table.add_column(name, justify="right")
    for driver, archived in sorted(measured.seconds):
        medians = measured.medians(driver, archived)
        peer = sum(measured.medians(driver, False))
        table.add_row(
            driver,
            "yes" if archived else "no",
            *(f"{seconds:.1f}" for seconds in (*medians, sum(medians))),
            f"{sum(medians) / peer:.2f}",
        )
    console.print(table)


@group.command("transport")
def bench_transport(
    rate: Annotated[float, typer.Option(min=0.1, help="Records a second.")] = 150.0,
    seconds: Annotated[float, typer.Option(min=5, help="After 15 s of warming up.")] = 30.0,
    as_json: Json = False,
) -> None:
    """From Kafka to the driver: a consumer, micro-batches of Spark, Spark's Real-Time Mode."""
    from lockstep_tools.bench.stream_stack import stream_stack
    from lockstep_tools.bench.transport import measure

    console = Console(highlight=False, stderr=as_json)
    with stream_stack(Settings.load(), ("kafka",)) as settings:
        measured = measure(settings, rate, seconds, console.print)
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in measured]))
        return
    title = f"{rate:g} records a second for {seconds:g} s; milliseconds from producer to Python"
    table = Table(title=title, title_justify="left")
    table.add_column("way")
    for name in ("records", "p50", "p95", "p99", "cores"):
        table.add_column(name, justify="right")
    for one in measured:
        found = (one.latency.p50, one.latency.p95, one.latency.p99)
        milliseconds = (f"{1000 * value:.1f}" for value in found)
        table.add_row(one.way, f"{one.records:,}", *milliseconds, f"{one.cores:.2f}")
    console.print(table)


@group.command("latency")
def bench_latency(
    mode: Mode = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Orders a second.")] = 50.0,
    seconds: Annotated[float, typer.Option(min=5, help="After 45 s of warming up.")] = 60.0,
    as_json: Json = False,
) -> None:
    """From the database's commit to readable in Delta, hop by hop, in one driver.

    Fails when the hops together are off the total by more than 5 %: then no figure can be trusted.
    """
    from lockstep_tools.bench.latency import measure, require_accounted

    measured = on_own_stack(
        lambda settings, on_progress: measure(settings, _modes(mode), rate, seconds, on_progress),
        _latency_report,
        as_json=as_json,
    )
    require_accounted(measured.modes)


def _modes(chosen: list[ModeOrAll] | None) -> list[StreamMode]:
    named = {str(mode) for mode in chosen or [ModeOrAll.outbox]}
    return [mode for mode in StreamMode if mode in named or ModeOrAll.all in named]


def on_own_stack(
    measure: Callable[[Settings, Callable[[str], None]], _Measured],
    report: Callable[[_Measured], Iterable[RenderableType]],
    *,
    as_json: bool,
) -> _Measured:
    """Measure on a stack of streams that is made for it; print JSON, or the report's parts."""
    from lockstep_tools.bench.stream_stack import stream_stack

    console = Console(highlight=False, stderr=as_json)
    console.print("starting a stack of its own")
    with stream_stack(Settings.load()) as settings:
        measured = measure(settings, console.print)
    if as_json:
        Console(soft_wrap=True).print_json(json.dumps(asdict(measured)))
    else:
        for part in report(measured):
            console.print(part)
    return measured


def _latency_report(measured: "latency.Measured") -> Iterable[RenderableType]:
    yield _latency_table(measured)
    yield (
        f"Latest order {measured.late_seconds_max * 1000:,.0f} ms after it was due. "
        "The hops' means together are, of the mean that the shop saw: "
        + ", ".join(f"{one.mode} {one.hops_of_seen:.1%}" for one in measured.modes)
        + "."
    )


def _latency_table(measured: "latency.Measured") -> Table:
    title = f"{measured.rate:g} orders a second for {measured.seconds:g} s; milliseconds"
    table = Table(title=title, title_justify="left")
    table.add_column("mode")
    table.add_column("rows", justify="right")
    table.add_column("hop")
    for name in ("p50", "p95", "p99", "mean"):
        table.add_column(name, justify="right")
    for one in measured.modes:
        for hop, found in {**one.parts, "as the shop saw it": one.seen}.items():
            is_total = hop == "total"
            table.add_row(
                one.mode if is_total else "",
                f"{one.rows:,}" if is_total else "",
                hop,
                *(f"{1000 * s:,.0f}" for s in (found.p50, found.p95, found.p99, found.mean)),
                style="bold" if is_total else None,
            )
        table.add_section()
    return table


@group.command("throughput")
def bench_throughput(
    mode: Mode = None,
    orders: Annotated[int, typer.Option(min=1000, help="Orders of the backlog.")] = 50_000,
    as_json: Json = False,
) -> None:
    """A backlog drained: Debezium alone, then each mode alone on what Debezium wrote."""
    from lockstep_tools.bench.throughput import measure

    on_own_stack(
        lambda settings, on_progress: measure(settings, _modes(mode), orders, on_progress),
        lambda measured: [_throughput_table(measured)],
        as_json=as_json,
    )


def _throughput_table(measured: "throughput.Measured") -> Table:
    title = (
        f"{measured.orders:,} orders, a transaction each, loaded in {measured.load_seconds:.0f} s: "
        f"{measured.debezium.records:,} records"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    for name in ("start s", "drain s", "orders/s", "orders/s, warm", "records/s"):
        table.add_column(name, justify="right")
    records, seconds = measured.debezium.records, measured.debezium.seconds
    per_second = measured.orders / seconds
    table.add_row(
        "Debezium", "", f"{seconds:.1f}", f"{per_second:,.0f}", "", f"{records / seconds:,.0f}"
    )
    for one in measured.modes:
        table.add_row(
            one.mode,
            f"{one.start_seconds:.1f}",
            f"{one.seconds:.1f}",
            f"{one.rows / one.seconds:,.0f}",
            "" if one.warm_rows_per_second is None else f"{one.warm_rows_per_second:,.0f}",
            f"{records / one.seconds:,.0f}",
        )
    return table


@group.command("large")
def bench_large(
    mode: Mode = None,
    changes: Annotated[
        int, typer.Option(min=1000, help="Changes of the one transaction.")
    ] = 1_000_000,
    clients: Annotated[int, typer.Option(min=1000, help="Clients there are.")] = 5_000_000,
    as_json: Json = False,
) -> None:
    """A transaction and a dimension too large for the driver: time and memory of temporal modes."""
    from lockstep_tools.bench import large

    modes = [one for one in _modes(mode or [ModeOrAll.all]) if one in large.MODES]
    settings, console = Settings.load(), Console(highlight=False, stderr=as_json)
    measured = [
        large.transaction(settings, modes, changes, console.print),
        large.clients(settings, modes, clients, console.print),
    ]
    if as_json:
        Console(soft_wrap=True).print_json(json.dumps([asdict(one) for one in measured]))
    else:
        console.print(_large_table(measured))


def _large_table(measured: "list[large.Measured]") -> Table:
    table = Table()
    for name in ("what", "mode", "orders, pizzas and revenue"):
        table.add_column(name)
    for name in ("seconds", "driver's peak MiB"):
        table.add_column(name, justify="right")
    for load in measured:
        for one in load.modes:
            totals = one.differs or "as in the database"
            numbers = f"{one.seconds:.0f}", f"{one.peak_mib:,.0f}"
            table.add_row(load.what, one.mode, totals, *numbers)
    return table


@group.command("parity")
def bench_parity(
    orders: Annotated[int, typer.Option(min=1000, help="Orders of the window.")] = 1_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, the first in a cold JVM.")] = 3,
    as_json: Json = False,
) -> None:
    """The comparison of a window beside datacompy's, of the same made-up tables."""
    from lockstep_tools.bench.parity import measure

    console = Console(highlight=False, stderr=as_json)
    measured = measure(Settings.load(), orders, rounds, console.print)
    if as_json:
        Console(soft_wrap=True).print_json(json.dumps(asdict(measured)))
    else:
        console.print(_parity_table(measured))
        for name, side in measured.sides.items():
            console.print(f"{name}: {side.found}")


def _parity_table(measured: "parity.Measured") -> Table:
    title = (
        f"a window of {measured.orders:,} orders; seconds after session start, which took "
        f"{measured.session_seconds:.1f} s"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    for name in ("cold JVM", "median", "fastest to slowest", "peak MiB"):
        table.add_column(name, justify="right")
    for name, side in measured.sides.items():
        table.add_row(
            name,
            f"{side.seconds[0]:.1f}",
            f"{side.median:.1f}",
            f"{min(side.seconds):.1f} to {max(side.seconds):.1f}",
            f"{side.peak_mib:,.0f}",
        )
    return table
