"""The ways to produce a pipeline's result, and what each of them needs or may differ by.

What a mode does is not here: the hourly run and the streams are packages of their own.
"""

from enum import StrEnum


class Mode(StrEnum):
    """BATCH is the hourly run, which every pipeline has; the others are streams.

    MAINTAINED is the only stream of the semantics `current`, and of no other.
    """

    BATCH = "batch"
    LOOKUP = "lookup"
    OUTBOX = "outbox"
    MESSAGE = "message"
    TEMPORAL = "temporal"
    TRANSACTION = "transaction"
    MAINTAINED = "maintained"


STREAM_MODES = (Mode.LOOKUP, Mode.OUTBOX, Mode.MESSAGE, Mode.TEMPORAL, Mode.TRANSACTION)
"""The streams of the semantics `as_of_commit`."""
PUBLISHED = (Mode.OUTBOX, Mode.MESSAGE)
"""Those that know only what the application published."""


class Tolerable(StrEnum):
    """Differences from the hourly table that a mode has by design. Any other is a defect.

    LOOKUP_RACE: a row is what the database held when it was looked up, after its commit.
    DIMENSION_DRIFT: the fact was joined with what was valid at its commit, and the hourly run with
    what was valid when it read.
    """

    LOOKUP_RACE = "lookup_race"
    DIMENSION_DRIFT = "dimension_drift"
