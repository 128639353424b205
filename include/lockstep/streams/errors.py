"""What a stream stops with: what it belongs to is gone, or is another one."""

from lockstep.cdc.errors import BEGIN_AGAIN, CaptureLostError
from lockstep.errors import StreamError


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


class PublicationChangedError(CaptureLostError):
    """A table that a stream reads left the publication, or left it and came again."""

    def __init__(self, publication: str, table: str, *, is_gone: bool, remedy: str) -> None:
        what = "is not in it any more" if is_gone else "was removed from it, and added again"
        super().__init__(
            f"the publication {publication} was changed: {table} {what}, so that changes of it are "
            f"missing for good; {remedy}"
        )
        self.publication, self.table = publication, table


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


class StreamIdentityMissingError(StreamError):
    """Of a stream's table and its identity.json one is gone, damaged, or of another table."""

    restart_helps = False

    def __init__(self, mode: str, what: str) -> None:
        super().__init__(
            f"the stream {mode} cannot go on: {what}. Bring it back from a copy, or make the table "
            f"from the change topic with `lockstep stream rebuild {rebuilt_with(mode)}`"
        )
        self.mode = mode
