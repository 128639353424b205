"""What a check or a comparison came to."""

from enum import StrEnum


class CheckStatus(StrEnum):
    """The outcome of one quality check, or of a suite (then: its worst check)."""

    PASS = "pass"  # noqa: S105
    WARN = "warn"
    FAIL = "fail"


class Verdict(StrEnum):
    """What a comparison of an hourly window with a stream came to.

    waiting: the stream has not passed the window's cut. not_covered: what the window holds was
    there before the stream began.
    """

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    WAITING = "waiting"
    NOT_COVERED = "not_covered"


class DifferenceClass(StrEnum):
    """Why a row differs, in the order in which the classes are tried: exactly one applies."""

    DUPLICATE_IN_STREAM = "duplicate_in_stream"
    MISSING_IN_STREAM = "missing_in_stream"
    MISSING_IN_BATCH = "missing_in_batch"
    LOOKUP_RACE = "lookup_race"
    DIMENSION_DRIFT = "dimension_drift"
    VALUE_MISMATCH = "value_mismatch"
    CHANGED_AFTER_CUT = "changed_after_cut"
