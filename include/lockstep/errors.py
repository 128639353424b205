"""The errors a user can meet. Each says what is wrong, with its numbers, and what to do.

Entry points print such an error on one line and exit with its ``exit_code``; anything else is a
defect of ours and keeps its traceback.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class LockstepError(Exception):
    """Base of every expected failure."""

    exit_code = 2
    restart_helps = True
    """Of an error that ends a stream: the same start, later, may succeed without a person."""


class ConfigurationError(LockstepError):
    """A setting is missing, malformed, or contradicts another."""

    restart_helps = False


class WindowError(LockstepError):
    """The window of order times cannot be used."""


class JarsIncompleteError(LockstepError):
    """The JVM parts are missing or damaged."""

    restart_helps = False


class PostgresUnavailableError(LockstepError):
    """PostgreSQL does not answer, refuses the role, or lacks a table."""


class LakehouseError(LockstepError):
    """The lakehouse cannot be read or written: no table, missing rights, no room, a lock held."""


class WindowNotWrittenError(LakehouseError):
    """No run's commit replaced exactly this window, or a later run wrote over it."""


class RepairRefusedError(LakehouseError):
    """A window's rows are not what its run left, or an order is not any more as it was approved."""


class WriterBusyError(LakehouseError):
    """Another process is writing the same table."""


class QueryError(LockstepError):
    """A SQL query over the lakehouse cannot be answered."""


class QualityStoreError(LockstepError):
    """The folder of the quality checks (results, Data Docs) cannot be used."""


class ServiceError(LockstepError):
    """A service of the embedded stack did not start, stopped, or does not answer."""


class CutoverRefusedError(LockstepError):
    """The published table is not switched to this feed, and nothing was changed."""

    def __init__(self, feed: str, why: str) -> None:
        super().__init__(
            f"the published table is not switched to {feed}, and nothing was changed: {why}"
        )
        self.feed, self.why = feed, why


_FEED_AGAIN = (
    "Let the batch feed the table (`lockstep publish switch batch`), start the publisher again, "
    "run the hours of the gap again (`lockstep batch run`), and switch back to {feed} when it is "
    "verified"
)


class FeedReplacedError(LockstepError):
    """The change log that feeds the published table does not go on where that table ends."""

    restart_helps = False

    def __init__(self, feed: str, published: int, frontier: int, why: str) -> None:
        super().__init__(
            f"{feed} is published up to LSN {published}, and its change log, at LSN {frontier}, "
            f"does not continue that: {why}. Changes between may be missing in it for good, and "
            f"nothing was published. {_FEED_AGAIN.format(feed=feed)}"
        )
        self.feed, self.published, self.frontier, self.why = feed, published, frontier, why


class FeedBehindError(LockstepError):
    """The change log that feeds the published table has not reached what is published already."""

    def __init__(self, feed: str, published: int, frontier: int | None) -> None:
        super().__init__(
            f"{feed} is published up to LSN {published}, and its change log has reached "
            f"{'nothing' if frontier is None else f'LSN {frontier}'} only. Wait if it is being "
            f"filled again from the change topic (`lockstep stream status {feed}`). Otherwise: "
            f"{_FEED_AGAIN.format(feed=feed)}"
        )
        self.feed, self.published, self.frontier = feed, published, frontier


class StreamError(LockstepError):
    """A stream cannot start, or has stopped: the message names the cause and the remedy."""


class PoisonedRecordError(StreamError):
    """A record of the change topic cannot be read."""

    restart_helps = False

    def __init__(self, topic: str, partition: int, offset: int, reason: str) -> None:
        super().__init__(
            f"record {topic}[{partition}] at offset {offset} cannot be read: {reason}. Repair "
            "what wrote it, so that no more such records come. Then give it up with `lockstep "
            f"stream skip {offset}` (with `--until end` also all behind it that cannot be read), "
            "which notes the damage, and start the stream again"
        )
        self.topic, self.partition, self.offset, self.reason = topic, partition, offset, reason


class StreamBusyError(StreamError):
    """Another process runs the mode."""

    def __init__(self, mode: str, pid: int | None) -> None:
        status, stop = {
            "publisher": ("publish status", "publish stop"),
            "history": ("stream status", "stream stop all"),  # of whichever driver hosts it
        }.get(mode, (f"stream status {mode}", f"stream stop {mode}"))
        super().__init__(
            f"the stream {mode} is run by another process (pid {pid or 'unknown'}); "
            f"`lockstep {status}` shows it, `lockstep {stop}` stops it"
        )
        self.mode, self.pid = mode, pid


class StreamFailedError(StreamError):
    """The stream did not come to work, or ceased to; with the end of its driver's log."""

    def __init__(self, mode: str, why: str, log_end: str = "") -> None:
        ending = f"; the end of its log (streams/{mode}/driver.log):\n{log_end}" if log_end else ""
        super().__init__(f"the stream {mode}: {why}{ending}")
        self.mode, self.why = mode, why


class StreamNotStoppedError(StreamError):
    """Even a kill did not free the mode."""

    def __init__(self, modes: list[str], seconds: float) -> None:
        super().__init__(
            f"{', '.join(modes)} still run {seconds:.0f} s after they were to stop, though their "
            "driver was killed; `fuser` on streams/<address>/lease.lock finds who holds them"
        )
        self.modes, self.seconds = modes, seconds


class CaptureLostError(StreamError):
    """Change capture has a gap that nothing can fill any more; what it captured remains true."""

    restart_helps = False


BEGIN_AGAIN = (
    "begin change capture again with `lockstep capture reset`, which explains what that means, and "
    "then make each stream's table again with `lockstep stream rebuild MODE`"
)


def rebuilt_with(mode: str) -> str:
    """The mode whose rebuild makes this one's table: temporal keeps the dimensions' history."""
    return "temporal" if mode == "history" else mode


class SlotLostError(CaptureLostError):
    """The replication slot is gone, or lost log that was not read yet."""

    def __init__(self, slot: str, why: str, remedy: str = BEGIN_AGAIN) -> None:
        super().__init__(
            f"the replication slot {slot} {why}: changes that were not captured yet are missing "
            f"for good; {remedy}"
        )
        self.slot = slot


class SlotRecreatedError(CaptureLostError):
    """The slot of that name is not the one that change capture began with."""

    def __init__(self, slot: str, confirmed_lsn: int | None, remedy: str = BEGIN_AGAIN) -> None:
        super().__init__(
            f"the replication slot {slot} was dropped and created again (it has not the mark of "
            f"the connector's own, `failover`, and stands at LSN {confirmed_lsn}): changes of "
            f"between are missing for good; {remedy}"
        )
        self.slot, self.confirmed_lsn = slot, confirmed_lsn


class CaptureUnwatchedError(StreamError):
    """For too long nothing could say whether slot and topic are still the stream's own."""

    def __init__(self, mode: str, seconds: float, why: str) -> None:
        super().__init__(
            f"the stream {mode} does not go on: for {seconds:.0f} s nothing has looked whether "
            f"slot and topic are still its own ({why}). Nothing is lost; start it again, and "
            "report what its log says of the capture watch"
        )
        self.mode, self.seconds = mode, seconds


class TopicUnknownError(StreamError):
    """Kafka does not know the change topic, and has not said so for long enough to be believed."""

    def __init__(self, topic: str, address: str, seconds: float) -> None:
        super().__init__(
            f"Kafka at {address} does not know the topic {topic}. That does not prove that it was "
            "deleted: a broker that has just started may not know its topics yet. Start the stream "
            f"again: a start asks for {seconds:.0f} s before it says that the topic is gone"
        )
        self.topic = topic


class TopicRecreatedError(CaptureLostError):
    """The change topic is gone, or is not the one that the stream read."""

    def __init__(self, mode: str, topic: str, expected_id: str, found_id: str | None) -> None:
        found = (
            f"there is one with the id {found_id}"
            if found_id
            else "there is none, neither by its name nor in the list of all topics"
        )
        super().__init__(
            f"the stream {mode} has read the topic {topic} with the id {expected_id}; now {found}. "
            "See that LOCKSTEP_KAFKA_HOST and _PORT name the same Kafka as before. "
            + (
                f"After `lockstep capture reset`, `lockstep stream rebuild {rebuilt_with(mode)}` "
                f"makes its table again; if that was not done, {BEGIN_AGAIN}"
                if found_id
                else f"If they do, {BEGIN_AGAIN}"
            )
        )
        self.mode, self.expected_id, self.found_id = mode, expected_id, found_id


class SnapshotRepeatedError(CaptureLostError):
    """The connector took a second snapshot: what changed before it may be missing."""

    def __init__(self, offset: int) -> None:
        super().__init__(
            f"the connector began another snapshot at offset {offset}: changes between its last "
            f"event and that snapshot may be missing for good; {BEGIN_AGAIN}"
        )
        self.offset = offset


class TopicIncompleteError(CaptureLostError):
    """The change topic does not begin with the connector's snapshot, so no table can come of it."""

    def __init__(self, topic: str, why: str, remedy: str = BEGIN_AGAIN) -> None:
        super().__init__(f"the topic {topic} {why}, so that no table can be made of it; {remedy}")


class OtherDatabaseError(StreamError):
    """The database is not the one whose changes the stream has read."""

    restart_helps = False

    def __init__(
        self, mode: str, expected: tuple[str, int], found: tuple[str, int], address: str
    ) -> None:
        super().__init__(
            f"the stream {mode} has read changes of the database {expected[0]} of system "
            f"{expected[1]}; at {address} is {found[0]} of system {found[1]}. Correct "
            "LOCKSTEP_POSTGRES_HOST and _PORT, or, if the database was replaced on purpose, "
            f"{BEGIN_AGAIN}"
        )
        self.mode, self.expected, self.found = mode, expected, found


class OtherCaptureError(CaptureLostError):
    """What a source's stream has read or written is of another capture than the one there is."""

    def __init__(self, what: str, source: str) -> None:
        super().__init__(
            f"{what} is of another capture of source {source} than before: its database, slot or "
            "change topic was made again; delete the folders of the source's history and of its "
            "pipelines' change logs, and start again"
        )


class StreamCheckpointMissingError(StreamError):
    """Of a stream's table, identity.json and checkpoint_location something is gone."""

    restart_helps = False

    def __init__(self, mode: str, what: str) -> None:
        super().__init__(
            f"the stream {mode} cannot go on: {what}. Bring it back from a copy, or make the table "
            f"from the change topic with `lockstep stream rebuild {rebuilt_with(mode)}`"
        )
        self.mode = mode


@contextmanager
def exit_on_error() -> Iterator[None]:
    """For each main: a LockstepError becomes one line on standard error and its exit code."""
    try:
        yield
    except LockstepError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
