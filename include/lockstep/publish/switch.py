"""Switches what feeds the published table, in one commit, after a person has approved it.

To a stream, at its frontier: every row that the stream knows becomes what the stream has, gone
where it was deleted; rows of before its time stay as the batch gave them. To the batch: every
window that the hourly table has becomes what that has; rows of windows that no hourly run has
written yet stay as the stream gave them, until one does. So nothing is lost or doubled.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from deltalake import DeltaTable

from lockstep.ledger import cutovers
from lockstep.ledger.cutovers import Cutover
from lockstep.ledger.entries import Verified
from lockstep.model.modes import BATCH, StreamMode
from lockstep.pipeline.plan import Plan
from lockstep.publish import conditions
from lockstep.publish.errors import CutoverRefusedError
from lockstep.publish.from_hourly import publish_hourly
from lockstep.publish.from_stream import publish_all
from lockstep.publish.step import publish_new
from lockstep.publish.table import (
    CUTOVER_METADATA,
    Fed,
    Mark,
    fed_of,
    open_or_create,
    open_published,
    require_columns,
)
from lockstep.settings import Settings
from lockstep.sinks.append_log import capture_id_of, reached_of
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.hourly_runs import newest_run, open_hourly

WRITER_SECONDS_MAX = 60.0
"""For the publisher's step under way."""


@dataclass(frozen=True)
class PlannedSwitch:
    """A switch that may be made; `verified` is the stream's, None for the batch."""

    from_feed: str
    to_feed: str
    rows: int
    verified: Verified | None


def plan_switch(
    settings: Settings, plan: Plan, feed: str, windows: int, as_of: datetime
) -> PlannedSwitch:
    """What a switch to the feed would begin with. Changes nothing.

    Raises CutoverRefusedError when it would be refused: the published table is fed by it already,
    or the stream is not verified through the last due window for so many windows, or does not run,
    or has not passed the last cut, or is of another capture than the stream that feeds the table.
    A switch to the batch is never refused otherwise. Raises PipelineError when the published table
    was made for another result of the pipeline.
    """
    table = open_published(settings)
    if table is not None:
        require_columns(table, plan.result)
    fed = fed_of(table) if table else Fed(BATCH, None, None, None)
    reach = _required(settings, plan, fed, feed, windows, as_of)
    if feed != BATCH:
        _log(settings, StreamMode(feed), fed, open_hourly(settings))
    return PlannedSwitch(fed.feed, feed, table.count() if table else 0, reach)


def switch(
    settings: Settings, plan: Plan, feed: str, windows: int, approved_by: str, as_of: datetime
) -> Cutover:
    """Make this the feed of the published table; returns the ledger's new line.

    Killed at any moment, the table is fed as before or as asked for, whole; the line of a switch
    that was killed before it was written is written by the publisher, or by the next switch.
    Raises CutoverRefusedError and PipelineError as `plan_switch` does, WriterBusyError,
    LakehouseError.
    """
    # Step 1: be the only writer.
    with sole_writer(settings, settings.names.published_table, WRITER_SECONDS_MAX):
        table = open_or_create(settings, plan.result)
        settle(settings, table)
        # Step 2: refuse what is not proved.
        fed = fed_of(table)
        reach = _required(settings, plan, fed, feed, windows, as_of)
        # Step 3: one commit, which says that it is the switch.
        metadata = {
            "switched_at": datetime.now(UTC).isoformat(),
            "from_feed": fed.feed,
            "approved_by": approved_by,
            "verified_since": reach and reach.since.isoformat(),
            "verified_through": reach and reach.through.isoformat(),
        }
        if feed == BATCH:
            _to_batch(settings, plan, table, fed, metadata)
        else:
            _to_stream(settings, plan, table, StreamMode(feed), metadata)
        # Step 4: the ledger's line, from what the commit says.
        settle(settings, table)
    return cutovers.lines(settings)[-1]


def settle(settings: Settings, table: DeltaTable) -> None:
    """Write the ledger's line of the last switch if a kill has kept it from being written.

    The caller has the table's writer lock. Done before the table's log is shortened.
    """
    switched_in = fed_of(table).switched_in
    lines = cutovers.lines(settings)
    if switched_in is None or (lines and lines[-1].published_version >= switched_in):
        return
    commits = table.history(table.version() - switched_in + 1)
    metadata = json.loads(commits[-1][CUTOVER_METADATA])
    times = ("switched_at", "verified_since", "verified_through")
    metadata |= {name: metadata[name] and datetime.fromisoformat(metadata[name]) for name in times}
    before, after = (
        DeltaTable(table.table_uri, version=version).count()
        for version in (switched_in - 1, switched_in)
    )
    line = Cutover(published_version=switched_in, rows_before=before, rows_after=after, **metadata)
    cutovers.append(settings, line)


def _required(
    settings: Settings, plan: Plan, fed: Fed, feed: str, windows: int, as_of: datetime
) -> Verified | None:
    if feed == fed.feed:
        raise CutoverRefusedError(feed, f"it is fed by {feed} already")
    if feed == BATCH:
        return None
    reach = conditions.require_verified(settings, plan, StreamMode(feed), windows, as_of)
    conditions.require_running(settings, StreamMode(feed))
    return reach


def _to_stream(
    settings: Settings, plan: Plan, table: DeltaTable, mode: StreamMode, metadata: dict
) -> None:
    """What the batch still has to publish comes first: the stream may not know those rows."""
    if fed_of(table).feed == BATCH:
        publish_new(settings, plan, table)
    fed, hourly = fed_of(table), open_hourly(settings)
    log = _log(settings, mode, fed, hourly)
    frontier = reached_of(log).frontier
    hourly_version = fed.reached if fed.feed == BATCH else None
    metadata |= {"to_feed": mode, "lsn": frontier, "hourly_version": hourly_version}
    publish_all(table, log, plan.result, Mark(mode, frontier, capture_id_of(log), metadata))


def _to_batch(settings: Settings, plan: Plan, table: DeltaTable, fed: Fed, metadata: dict) -> None:
    hourly = open_hourly(settings)
    version = -1 if hourly is None else hourly.version()
    metadata |= {"to_feed": BATCH, "lsn": fed.reached, "hourly_version": version}
    publish_hourly(table, hourly, plan.result, None, Mark(BATCH, version, cutover=metadata))


def _log(settings: Settings, mode: StreamMode, fed: Fed, hourly: DeltaTable | None) -> DeltaTable:
    """The stream's change log at a version beyond all that consumers have seen."""
    run = newest_run(hourly) if hourly else None
    log = conditions.require_past(
        settings, mode, run.cut.marker_lsn if run else 0, "the last hourly run's cut"
    )
    if fed.feed == BATCH:
        return log
    conditions.require_same_capture(mode, log, fed)
    return conditions.require_past(settings, mode, fed.reached, f"what {fed.feed} has published")
