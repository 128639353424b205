"""The example's own errors."""

from lockstep.errors import LockstepError


class InputDataError(LockstepError):
    """A file given to a loader is missing or malformed, or the database holds something else."""
