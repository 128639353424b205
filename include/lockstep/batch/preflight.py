"""What of a pipeline's run can be known to be wrong before Spark is started is said at once."""

from lockstep import jars
from lockstep.errors import WindowError
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.project import Pipeline
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import require_writable
from lockstep.sources.hourly_runs import open_hourly, require_layout
from lockstep.sources.postgres import connect_to
from lockstep.sources.readiness import require_readable, require_rights
from lockstep.sources.source_database import reader_of
from lockstep.sources.source_view import columns_of_tables, view_columns, view_of


def window_of(plan: Plan, start: str, end: str) -> Window | None:
    """The window to replace, of ISO 8601 text; None for a pipeline that is refreshed whole.

    Raises WindowError when the window is bad, is missing, or is given where there is none.
    """
    if bool(start) != bool(end):
        raise WindowError("a window has a START and an END: give both, or neither")
    window = Window.parse(start, end) if start else None
    require_window(plan, window)
    return window


def require_window(plan: Plan, window: Window | None) -> None:
    """Raise WindowError unless there is a window where the pipeline has a time, and none else."""
    if plan.time is not None and window is None:
        raise WindowError(
            f"pipeline {plan.name} is run for a window of {plan.time}: give its START and its END"
        )
    if plan.time is None and window is not None:
        raise WindowError(
            f"pipeline {plan.name} has no `time`, so its table is replaced whole: leave out START "
            "and END"
        )


def check_writable(settings: Settings, pipeline: Pipeline) -> None:
    """Raise the LockstepError that writing would meet: room, and the hourly table's layout."""
    require_writable(settings)
    if (hourly := open_hourly(settings.of(pipeline.name))) is not None:
        require_layout(hourly)


def check_readable(settings: Settings, pipeline: Pipeline, plan: Plan, read_mode: ReadMode) -> None:
    """Raise the LockstepError that reading would meet: jars, database, tables, rights.

    With the mode view, the rights on the view are checked, and of the tables those on the columns
    that a run reads as well: the fact's time, and what sources/origin.py needs.
    """
    if read_mode is ReadMode.VIEW:
        view_of(plan)
    jars.classpath(settings, "spark")
    target = reader_of(settings, pipeline.source)
    with connect_to(target) as connection:
        if read_mode is ReadMode.VIEW:
            view_columns(connection, plan, target.role)
            for table, columns in columns_of_tables(plan).items():
                require_rights(connection, table, columns, target.role)
        else:
            require_readable(connection, pipeline.source, plan.tables.values())
