"""What is wrong with the store of the checks."""

from lockstep.errors import LockstepError


class QualityStoreError(LockstepError):
    """The folder of the quality checks (results, Data Docs) cannot be used."""
