"""The ledger's lines. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.pipeline.version import VERSION_OF_BEFORE

LEDGER_COLUMNS = {
    "check_id": "string",
    "window_start": "timestamp",
    "window_end": "timestamp",
    "mode": "string",
    "verdict": "string",
    "reason": "string",
    "run_id": "string",
    "cut_snapshot": "string",
    "cut_lsn": "bigint",
    "batch_version": "bigint",
    "stream_version": "bigint",
    "stream_frontier": "bigint",
    "orders_compared": "bigint",
    **{str(kind): "bigint" for kind in DifferenceClass},
    "definition": "string",
    "checked_at": "timestamp",
    "seconds": "double",
    "pipeline_version": "string",
    "task_log": "string",
}
"""pipeline_version: null in lines of before versions; they are of VERSION_OF_BEFORE."""
ROW_KEY = "row_key"
DIFFERENCES_COLUMNS = {
    "check_id": "string",
    "window_start": "timestamp",
    "mode": "string",
    "class": "string",
    ROW_KEY: "string",
    "differing_columns": "string",
    "batch": "string",
    "stream": "string",
    "evidence": "string",
}
"""What differs: row_key, differing_columns, batch, stream and evidence are JSON."""


@dataclass(frozen=True)
class Comparison:
    """One line: a window, a mode, and what comparing them came to.

    reason: why the verdict is what it is, a sentence.
    cut_lsn, stream_frontier: commit LSNs; stream_frontier None when the stream has none yet.
    counts: rows by class; those that are not there are 0.
    definition: identifies the SQL that judged, and what was tolerated.
    seconds: how long it took, without the start of a session.
    pipeline_version: of the pipeline's folder when it was judged.
    task_log: the page of the Airflow task that compared, below the web server's address; empty when
    a person did by command.
    """

    check_id: str
    window: Window
    mode: StreamMode
    verdict: Verdict
    reason: str
    run_id: str
    cut_snapshot: str
    cut_lsn: int
    batch_version: int
    stream_version: int
    stream_frontier: int | None
    orders_compared: int
    definition: str
    checked_at: datetime
    seconds: float
    pipeline_version: str = VERSION_OF_BEFORE
    task_log: str = ""
    counts: Mapping[DifferenceClass, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """One row that differs, with both sides' values and what explains it, as JSON texts.

    key: the canonical text of its key (pipeline.row_keys).
    """

    kind: DifferenceClass
    key: str
    differing_columns: str
    batch: str | None
    stream: str | None
    evidence: str

    @property
    def key_values(self) -> list[Any]:
        """What sorts by the key's columns, numbers by their value."""
        return json.loads(self.key, parse_float=Decimal)


@dataclass(frozen=True)
class Verified:
    """A mode agrees with the hourly table from `since` to `through`, without a gap."""

    since: datetime
    through: datetime


class Judged(NamedTuple):
    """The least of a line: which window of which mode came to which verdict, and when.

    version: of the pipeline's folder at that time.
    """

    mode: StreamMode
    start: datetime
    end: datetime
    verdict: Verdict
    checked_at: datetime
    version: str = VERSION_OF_BEFORE


class Reached(NamedTuple):
    """How far a mode has come. newest: of its last window; verified: None when none passed."""

    newest: Judged
    verified: Verified | None


def newest_of_each_window(lines: Iterable[Judged]) -> list[Judged]:
    """Of one mode's lines the last of each window, in the order of the windows."""
    newest: dict[tuple[datetime, datetime], Judged] = {}
    for line in sorted(lines, key=lambda line: line.checked_at):
        newest[line.start, line.end] = line
    return [newest[bounds] for bounds in sorted(newest)]
