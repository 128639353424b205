"""What is wrong with the change topic's records, and with what a connector wrote."""

from lockstep.errors import StreamError

BEGIN_AGAIN = (
    "begin change capture again with `lockstep capture reset`, which explains what that means, and "
    "then make each stream's table again with `lockstep stream rebuild MODE`"
)


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


class CaptureLostError(StreamError):
    """Change capture has a gap that nothing can fill any more; what it captured remains true."""

    restart_helps = False


class SnapshotRepeatedError(CaptureLostError):
    """The connector took a second snapshot: what changed before it may be missing."""

    def __init__(self, offset: int) -> None:
        super().__init__(
            f"the connector began another snapshot at offset {offset}: changes between its last "
            f"event and that snapshot may be missing for good; {BEGIN_AGAIN}"
        )
        self.offset = offset
