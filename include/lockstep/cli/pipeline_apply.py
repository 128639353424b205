"""`lockstep pipeline apply`: a pipeline's tables, after its query or manifest was edited."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from lockstep.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.pipeline.plan import Plan
    from lockstep.streams.apply import Pending
    from lockstep.streams.rebuild import Rebuilt


def apply(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
) -> None:
    """Bring a pipeline's tables to its folder as it is now: shows what that takes, and asks.

    Writes result.lock where it is of another version, and brings tables that the pipeline is the
    first to read by a side snapshot. The table of each stream is made again next to the one that
    readers see, while the stream runs on, and switched in one commit; then the stream is started
    again if it ran. Modes outbox and message go on with what is published from now on. An hourly
    table of other columns is emptied. Broken off, it is begun again by the next call.
    """
    from lockstep.sources.side_snapshots import read_side_snapshots
    from lockstep.streams.apply import apply as apply_pending
    from lockstep.streams.apply import pending

    settings, console = Settings.load().of(name), Console(soft_wrap=True, highlight=False)
    plan = _locked_plan(settings, console, name)
    what = pending(settings, plan)
    late = not read_side_snapshots(settings, plan.source).has_all(plan.captured)
    if late:
        console.print("tables that it is the first to read come by a side snapshot")
    for line in _lines(plan, what):
        console.print(line, markup=False)
    if not what and not late:
        console.print(f"{name}: no table is to be changed")
        return
    if not yes:
        typer.confirm("Apply?", abort=True)
    if late:
        _capture(settings, console, plan)
    with console.status("…") as status:
        apply_pending(
            settings,
            plan,
            what,
            lambda mode, at, end: status.update(f"{mode}: {at:,} of {end:,} …"),
            lambda made: console.print(_said(made), markup=False),
        )
    if what.running:
        console.print(
            f"{', '.join(what.running)} run again; Clear their DAGs' tasks if Airflow watched them"
        )


def _locked_plan(settings: Settings, console: Console, name: str) -> "Plan":
    """The plan with its result's types, which Spark finds where they are of another version."""
    from lockstep.batch.result_lock import lock_result
    from lockstep.pipeline.plan import plan_named

    plan = plan_named(settings.project, name)
    if plan.lock_problem:
        file, _ = lock_result(name)
        console.print(f"{file} is written")
        plan = plan_named(settings.project, name)
    return plan


def _lines(plan: "Plan", what: "Pending") -> "Iterator[str]":
    from lockstep.streams.apply import Hourly

    for mode in what.rebuilt:
        yield f"{mode}: its table is made again from the change topic, and switched in one commit"
    for mode in what.continued:
        yield (
            f"{mode}: its table goes on empty, with what is published from now on; run the SQL of "
            f"`lockstep pipeline prepare {plan.name}` first, so that the new columns are published"
        )
    for mode in what.removed:
        yield f"{mode}: the manifest has it no more, so that its stream is stopped; its table stays"
    if what.hourly is Hourly.COLUMNS:
        yield (
            "the hourly table is emptied and gets the new columns, in one commit: run its windows "
            "again (a backfill of the pipeline's DAG). The published table stays as it is, and the "
            "publisher says what it needs"
        )
    elif what.hourly is Hourly.RUNS:
        yield (
            "the hourly table is of another version of the pipeline: run those windows again that "
            "are to be compared (a backfill of the pipeline's DAG)"
        )


def _capture(settings: Settings, console: Console, plan: "Plan") -> None:
    from lockstep.capture.source_capture import capture_source
    from lockstep.pipeline.project import read_project

    project = read_project(settings.project)
    capture_source(settings, project, project.source(plan.source), progress=console.print)


def _said(made: "Rebuilt") -> str:
    return f"{made.mode} is switched: {made.rows:,} rows, up to LSN {made.frontier}"
