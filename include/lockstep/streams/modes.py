"""Which parts make a mode: its sink, and what its records go through in Spark before."""

from typing import TYPE_CHECKING

from lockstep.model.modes import HISTORY, StreamMode
from lockstep.settings import Settings
from lockstep.streams import published
from lockstep.streams.given_up import given_up
from lockstep.streams.lookup import LookupEnrichment
from lockstep.streams.runner import Stage
from lockstep.streams.sink import ChangeLogSink, Enrichment, Sink, open_change_log
from lockstep.streams.temporal import History, HistorySink, TemporalEnrichment, history_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_tables(settings: Settings, mode: str) -> None:
    """Make the tables that the mode writes where there are none. Raises LakehouseError."""
    if mode in (HISTORY, StreamMode.TEMPORAL):
        history_log(settings)
    if mode != HISTORY:
        open_change_log(settings, StreamMode(mode))


def sink_of(spark: "SparkSession", settings: Settings, mode: str, capture_id: int) -> Sink:
    """The sink of a mode, or of the history query, its table opened. Raises LockstepError.

    capture_id: of the capture whose changes it will be given, as streams/identity.py has it.
    """
    if mode == HISTORY:
        return HistorySink(settings)
    log = open_change_log(settings, StreamMode(mode), capture_id)
    return ChangeLogSink(log, _enrichment(spark, settings, mode, log.reached.frontier))


def _enrichment(
    spark: "SparkSession", settings: Settings, mode: str, frontier: int | None
) -> Enrichment:
    match mode:
        case StreamMode.OUTBOX:
            return published.outbox()
        case StreamMode.MESSAGE:
            return published.message()
        case StreamMode.LOOKUP:
            return LookupEnrichment(spark, settings)
        case StreamMode.TEMPORAL:
            return TemporalEnrichment(spark, History(settings, history_log(settings), frontier))
        case StreamMode.TRANSACTION:
            history = History(settings, None, frontier)
            if frontier is not None:
                history.catch_up(frontier, given_up(settings))
            return TemporalEnrichment(spark, history)
    raise ValueError(f"{mode} is no mode of a stream")


def stage_of(mode: str) -> Stage | None:
    """What the mode's records go through in Spark before they come to the driver."""
    if mode != StreamMode.TRANSACTION:
        return None
    from lockstep.streams.open_transactions import unpacked, whole_transactions

    return Stage(whole_transactions, unpacked)
