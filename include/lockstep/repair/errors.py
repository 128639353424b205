"""What a repair refuses."""

from lockstep.errors import LakehouseError


class RepairRefusedError(LakehouseError):
    """A window's rows are not what its run left, or an order is not any more as it was approved."""
