"""What can be wrong with a pipeline's result. Each error says what, and what to do."""

from lockstep.errors import LockstepError


class ResultRefusedError(LockstepError):
    """A pipeline's result cannot be the rows of its hourly table; the table is as it was."""

    restart_helps = False
