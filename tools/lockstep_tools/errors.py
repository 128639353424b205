"""The tools' own errors."""

from lockstep.errors import LockstepError


class MeasurementError(LockstepError):
    """What a benchmark measured does not add up, so none of its figures can be trusted."""


class SoakError(LockstepError):
    """A long check could not be carried out; what it found wrong is in its report instead."""
