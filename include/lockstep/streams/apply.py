"""What the tables of a pipeline need after a change of its folder: `lockstep pipeline apply`.

A table says which version of the pipeline it is of. One of another version is made again next to
the one that readers see, and switched in one commit; what was published cannot be made again by
another query, so that its streams go on with what is published from then on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from deltalake import DeltaTable

from lockstep.model.modes import StreamMode
from lockstep.pipeline.modes import PUBLISHED, STREAM_MODES, Mode
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.result_tables import HOURLY_PARTITION
from lockstep.pipeline.version import VERSION_OF_BEFORE
from lockstep.settings import Settings
from lockstep.sinks import hourly_table
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.delta import open_table
from lockstep.sources.hourly_runs import newest_run, open_hourly
from lockstep.streams.rebuild import Rebuilt, begin_where_it_ended, rebuild
from lockstep.supervise import launcher, lease, source_driver

REASON = "started by `lockstep pipeline apply`"
OnProgress = Callable[[Mode, int, int], None]
"""Called now and then with a mode, the offset that it has reached, and the topic's end."""


class Hourly(StrEnum):
    """What the hourly table needs: nothing, that its windows run again, or other columns first."""

    AS_IT_IS = "as it is"
    RUNS = "runs"
    COLUMNS = "columns"


@dataclass(frozen=True)
class Pending:
    """rebuilt: modes whose tables are made again from the change topic. continued: modes of what
    was published, whose tables go on empty. running: which of all these run now. removed: streams
    that run, of modes that the manifest has no more."""

    rebuilt: tuple[Mode, ...]
    continued: tuple[Mode, ...]
    running: tuple[Mode, ...]
    removed: tuple[Mode, ...]
    hourly: Hourly

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.rebuilt or self.continued or self.removed) or self._is_hourly_emptied

    @property
    def _is_hourly_emptied(self) -> bool:
        return self.hourly is Hourly.COLUMNS


def pending(settings: Settings, plan: Plan) -> Pending:
    """What the tables need, by what they say of themselves. Raises PipelineError without a
    result.lock of the pipeline's version, and LakehouseError.

    settings: of the pipeline.
    """
    modes = [Mode(mode) for mode in plan.manifest.modes]
    outdated = [mode for mode in modes if _is_outdated(settings, plan, mode)]
    running = {mode for mode in STREAM_MODES if lease.holder(settings, mode) is not None}
    return Pending(
        rebuilt=tuple(mode for mode in outdated if mode not in PUBLISHED),
        continued=tuple(mode for mode in outdated if mode in PUBLISHED),
        running=tuple(mode for mode in outdated if mode in running),
        removed=tuple(mode for mode in STREAM_MODES if mode in running and mode not in modes),
        hourly=_hourly(settings, plan),
    )


def apply(
    settings: Settings,
    plan: Plan,
    what: Pending,
    on_progress: OnProgress = lambda *_: None,
    on_rebuilt: Callable[[Rebuilt], None] = lambda _: None,
) -> None:
    """Do it, a table after the other; each stream that ran is started again with its table.

    Broken off, it is done again: `pending` says what is left. Raises as `rebuild`, and as
    source_driver.start.
    """
    if what.removed:
        launcher.stop(settings, what.removed, f"{plan.name} has this mode no more")
    if what.hourly is Hourly.COLUMNS:
        with sole_writer(settings, plan.hourly_table):
            uri, columns = settings.table_uri(plan.hourly_table), hourly_table.columns_of(plan)
            hourly_table.begin_with(uri, columns, HOURLY_PARTITION if plan.time else None)
    for mode in (*what.rebuilt, *what.continued):
        if mode in what.rebuilt:
            made = rebuild(settings, StreamMode(mode), partial(on_progress, mode))
        else:
            made = begin_where_it_ended(settings, StreamMode(mode))
        if mode in what.running:
            source_driver.start(settings, [str(mode)], REASON)
        on_rebuilt(made)


def _is_outdated(settings: Settings, plan: Plan, mode: Mode) -> bool:
    uri = settings.table_uri(plan.change_log(mode))
    if not DeltaTable.is_deltatable(uri):
        return False
    return (open_table(uri).metadata().description or VERSION_OF_BEFORE) != plan.version


def _hourly(settings: Settings, plan: Plan) -> Hourly:
    table = open_hourly(settings)
    if table is None:
        return Hourly.AS_IT_IS
    if not hourly_table.has_columns(table, plan):
        return Hourly.COLUMNS
    run = newest_run(table)
    is_same = run is None or (run.pipeline_version or VERSION_OF_BEFORE) == plan.version
    return Hourly.AS_IT_IS if is_same else Hourly.RUNS
