"""Paimon's snapshots as they lie on the disk: which there are, and how many rows each has.

A snapshot can be read as soon as its file is there: Paimon writes it under another name first.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lockstep_tools.errors import MeasurementError

FIRST_SNAPSHOT = 1


def snapshot_file(table: Path, number: int) -> Path:
    """Where the table's snapshot of this number is, or will be."""
    return table / "snapshot" / f"snapshot-{number}"


def rows_of_snapshot(text: str) -> int:
    """How many rows a table without keys has in a snapshot, by the text of its file.

    Raises MeasurementError when it is not a snapshot's.
    """
    try:
        snapshot = json.loads(text)
        return int(snapshot["totalRecordCount"])
    except (ValueError, TypeError, KeyError) as error:
        raise MeasurementError(
            f"a snapshot of Paimon's is not as expected ({error!r}): {text[:200]}"
        ) from error


def visible_ns(totals: Sequence[int], moments_ns: Sequence[int], rows: int) -> NDArray[np.int64]:
    """When each of the first `rows` rows could be read, in the order in which they were written.

    totals: rows of the table in each snapshot, in order. moments_ns: when each snapshot was seen.
    The rows come from one partition of a topic and each snapshot ends at a checkpoint, so that it
    has a prefix of them. Raises MeasurementError unless the last snapshot has exactly `rows`.
    """
    last = totals[-1] if totals else 0
    if last != rows:
        raise MeasurementError(f"the Paimon table has {last:,} rows, and the topic {rows:,}")
    first_with = np.searchsorted(np.asarray(totals), np.arange(rows), side="right")
    return np.asarray(moments_ns, np.int64)[first_with]
