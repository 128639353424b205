"""What is wrong with the JVM parts."""

from lockstep.errors import LockstepError


class JarsIncompleteError(LockstepError):
    """The JVM parts are missing or damaged."""

    restart_helps = False
