"""One step of publishing: what the feed has and the published table has not, in one commit.

A step begins with what the table says of itself, so that it may be killed anywhere: nothing has
happened, or all of it, and the next step goes on from there.
"""

from dataclasses import dataclass

from deltalake import DeltaTable

from lockstep.model.modes import BATCH, StreamMode
from lockstep.pipeline.plan import Plan
from lockstep.publish.continuity import needs_capture_id, require_continued
from lockstep.publish.from_hourly import publish_hourly
from lockstep.publish.from_stream import publish_changes
from lockstep.publish.table import Fed, Mark, fed_of, keep_rows, open_or_create
from lockstep.settings import Settings
from lockstep.sinks.append_log import capture_id_of
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.delta import open_table
from lockstep.sources.hourly_runs import open_hourly


@dataclass(frozen=True)
class Step:
    """What a step came to.

    reached: how far the feed is published now, None for nothing. has_published: whether the step
    made a commit. is_all: whether the table now has all that its feed had. switched_in: the version
    that switched to the feed. version: the table's, after the step.
    """

    feed: str
    reached: int | None
    has_published: bool
    is_all: bool
    switched_in: int | None
    version: int


def step(settings: Settings, plan: Plan, patience_seconds: float = 0.0) -> Step:
    """Publish what is new, in one commit at the most; of much from a stream, a share.

    Raises WriterBusyError when another process still writes the table after the patience,
    LakehouseError when a table cannot be read or written, PipelineError when the published table
    was made for another result of the pipeline, and FeedReplacedError or FeedBehindError when the
    stream's change log does not continue what is published.
    """
    with sole_writer(settings, settings.names.published_table, patience_seconds):
        return publish_new(settings, plan, open_or_create(settings, plan.result))


def publish_new(settings: Settings, plan: Plan, published: DeltaTable) -> Step:
    """The step itself, for one who has the writer's lock."""
    fed = fed_of(published)
    from_feed = _from_hourly if fed.feed == BATCH else _from_stream
    reached, is_all = from_feed(settings, plan, published, fed)
    return Step(
        feed=fed.feed,
        reached=fed.reached if reached is None else reached,
        has_published=reached is not None,
        is_all=is_all,
        switched_in=fed.switched_in,
        version=published.version(),
    )


Reached = tuple[int | None, bool]
"""How far the step has come, None without a commit; and whether that is all there was."""


def _from_hourly(settings: Settings, plan: Plan, published: DeltaTable, fed: Fed) -> Reached:
    hourly = open_hourly(settings)
    if hourly is None or hourly.version() == fed.reached:
        return None, True
    mark = Mark(BATCH, hourly.version())
    publish_hourly(published, hourly, plan.result, fed.reached, mark)
    return mark.reached, True


def _from_stream(settings: Settings, plan: Plan, published: DeltaTable, fed: Fed) -> Reached:
    log = open_table(settings.table_uri(settings.names.change_log(StreamMode(fed.feed))))
    frontier = require_continued(published, log, plan.row_keys, fed)
    if needs_capture_id(log, fed):
        keep_rows(published, Mark(fed.feed, fed.reached, capture_id_of(log)))
        return fed.reached, False
    if frontier == fed.reached:
        return None, True
    reached = publish_changes(published, log, plan, fed.feed, fed.reached, frontier)
    return reached, reached in (None, frontier)
