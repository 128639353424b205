"""What a transaction did to a row, by what its changes did: one rule for all streams."""

CREATED, UPDATED, DELETED, SNAPSHOT_ROW = "c", "u", "d", "r"


def result_op(first: str, last: str) -> str:
    """By the first and the last change: deleted, else created, else updated."""
    if last == DELETED:
        return DELETED
    return CREATED if first == CREATED else UPDATED
