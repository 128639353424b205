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
from lockstep.pipeline.version import VERSION_OF_BEFORE
from lockstep.settings import Settings
from lockstep.sinks import hourly_table
from lockstep.sinks.append_log import pipeline_version_of, reached_of
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.delta import open_table
from lockstep.sources.hourly_runs import newest_run, open_hourly, require_layout
from lockstep.streams.identity import identity_path
from lockstep.streams.rebuild import Rebuilt, begin_where_it_ended, rebuild, require_local
from lockstep.supervise import launcher, lease, source_driver
from lockstep.supervise.desired import DesiredState, read_desired

REASON = "started by `lockstep pipeline apply`"
STOPPED_BY_IT = "is rebuilt by `lockstep pipeline apply`"
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
    was published, whose tables go on empty. running: which of all these run, or are to; also those
    that an `apply` has stopped and not started again. removed: streams that run, of modes that the
    manifest has no more."""

    rebuilt: tuple[Mode, ...]
    continued: tuple[Mode, ...]
    running: tuple[Mode, ...]
    removed: tuple[Mode, ...]
    hourly: Hourly

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        is_emptied = self.hourly is Hourly.COLUMNS
        return is_emptied or any((self.rebuilt, self.continued, self.running, self.removed))


def pending(settings: Settings, plan: Plan) -> Pending:
    """What the tables need, by what they say of themselves.

    Raises PipelineError without a result.lock of the pipeline's version, and LakehouseError, also
    for an hourly table that is to be upgraded first.

    settings: of the pipeline.
    """
    modes = [Mode(mode) for mode in plan.manifest.modes]
    outdated = [mode for mode in modes if _is_outdated(settings, plan, mode)]
    others = [mode for mode in STREAM_MODES if mode not in modes]
    return Pending(
        rebuilt=tuple(mode for mode in outdated if mode not in PUBLISHED),
        continued=tuple(mode for mode in outdated if mode in PUBLISHED),
        running=tuple(mode for mode in modes if _is_to_run(settings, mode, mode in outdated)),
        removed=tuple(mode for mode in others if lease.holder(settings, mode) is not None),
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
    require_local(settings)
    if what.removed:
        launcher.stop(settings, what.removed, f"{plan.name} has this mode no more")
    if what.hourly is Hourly.COLUMNS:
        with sole_writer(settings, plan.hourly_table):
            columns = hourly_table.columns_of(plan, plan.result.columns)
            partition = hourly_table.partition_of(plan)
            hourly_table.begin_with(settings.table_uri(plan.hourly_table), columns, partition)
    for mode in (*what.rebuilt, *what.continued):
        if mode in what.rebuilt:
            on = partial(on_progress, mode)
            on_rebuilt(rebuild(settings, StreamMode(mode), on, STOPPED_BY_IT))
        else:
            on_rebuilt(begin_where_it_ended(settings, StreamMode(mode), STOPPED_BY_IT))
        if mode in what.running:
            source_driver.start(settings, [str(mode)], REASON)
    for mode in what.running:
        if lease.holder(settings, mode) is None:  # stopped by an earlier call
            source_driver.start(settings, [str(mode)], REASON)


def _is_outdated(settings: Settings, plan: Plan, mode: Mode) -> bool:
    uri = settings.table_uri(plan.change_log(mode))
    if not DeltaTable.is_deltatable(uri):
        return False
    table = open_table(uri)
    is_of_before = pipeline_version_of(table) != plan.version
    is_switched_alone = (
        reached_of(table).frontier is not None and not identity_path(settings, mode).exists()
    )
    return is_of_before or is_switched_alone


def _is_to_run(settings: Settings, mode: Mode, is_outdated: bool) -> bool:
    """Whether a stream is to run when its table is as it should be."""
    desired = read_desired(settings, mode)
    if desired is not None and desired.state is DesiredState.STOPPED:
        return desired.reason == STOPPED_BY_IT
    is_desired = desired is not None or lease.holder(settings, mode) is not None
    return is_outdated and is_desired


def _hourly(settings: Settings, plan: Plan) -> Hourly:
    table = open_hourly(settings)
    if table is None:
        return Hourly.AS_IT_IS
    require_layout(table)
    if not hourly_table.has_layout(table, plan):
        return Hourly.COLUMNS
    run = newest_run(table)
    is_same = run is None or (run.pipeline_version or VERSION_OF_BEFORE) == plan.version
    return Hourly.AS_IT_IS if is_same else Hourly.RUNS
