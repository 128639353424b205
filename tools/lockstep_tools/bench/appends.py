"""`lockstep bench appends`: a stream's commits to its table, and delta-rs's of the same rows.

By turns, each to a table of its own in a temporary folder, with all upkeep: checkpoints,
compactions, and old versions that go. What is written in the first commits is not counted.
"""

import statistics
import tempfile
import time
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog

from lockstep_tools.errors import MeasurementError

OWN, DELTA_RS = "the writer's own", "delta-rs"
PARTITION = "commit_date"
SCHEMA = pa.schema(
    {
        **{f"number_{n}": pa.int64() for n in range(6)},
        **{f"text_{n}": pa.string() for n in range(6)},
        **{f"time_{n}": pa.timestamp("us", "UTC") for n in range(4)},
        PARTITION: pa.date32(),
    }
)
NOT_COUNTED = 20


@dataclass
class Measured:
    """Of all rounds, by who commits: milliseconds until the rows can be read and of the processor,
    of a commit; the second with its share of the upkeep."""

    wall_ms: dict[str, list[float]] = field(default_factory=dict)
    processor_ms: dict[str, list[float]] = field(default_factory=dict)

    def medians(self, who: str) -> tuple[float, float]:
        return statistics.median(self.wall_ms[who]), statistics.median(self.processor_ms[who])


def measure(settings: Settings, rows: int, commits: int, versions: int, rounds: int) -> Measured:
    """rows: of a commit. versions: the table has had them before, and keeps the newest of all.

    Raises LakehouseError and MeasurementError.
    """
    measured = Measured()
    settings.home.mkdir(parents=True, exist_ok=True)
    for _ in range(rounds):
        for who in (OWN, DELTA_RS):
            with tempfile.TemporaryDirectory(dir=settings.home) as folder:
                wall_ms, processor_ms = _measure(Path(folder), who, rows, commits, versions)
            measured.wall_ms.setdefault(who, []).append(wall_ms)
            measured.processor_ms.setdefault(who, []).append(processor_ms)
    return measured


def _measure(folder: Path, who: str, rows: int, commits: int, versions: int) -> tuple[float, float]:
    written = _rows(rows)
    with_history = _log(folder, versions)
    for number in range(1, versions):
        with_history.append(written.slice(0, 0), number, number)
    table = DeltaTable(folder)
    table.create_checkpoint()
    if who == DELTA_RS:  # a feature that a stream leaves to delta-rs, and appends do not notice
        table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    log = _log(folder, versions)
    seconds: list[float] = []
    processor_at = 0.0
    for number in range(versions, versions + NOT_COUNTED + commits):
        if number == versions + NOT_COUNTED:
            processor_at = time.process_time()
        begun_at = time.perf_counter()
        log.append(written, number, number)
        seconds.append(time.perf_counter() - begun_at)
        log.maintain()
    processor_seconds = time.process_time() - processor_at
    engine = DeltaTable(folder).history(1)[0]["engineInfo"]
    if (who == DELTA_RS) is not ("delta-rs" in engine):
        raise MeasurementError(f"the commits of {who} were made by {engine}: nothing is reported")
    return 1_000 * statistics.median(seconds[NOT_COUNTED:]), 1_000 * processor_seconds / commits


def _log(folder: Path, versions: int) -> AppendLog:
    return AppendLog(str(folder), SCHEMA, PARTITION, 1, versions_max=versions)


def _rows(count: int) -> pa.Table:
    moment = datetime.fromisoformat("2026-03-01T12:00Z")
    row = {
        **{f"number_{n}": 10**9 + n for n in range(6)},
        **{f"text_{n}": f"the text of column {n}" for n in range(6)},
        **{f"time_{n}": moment for n in range(4)},
        PARTITION: date(2026, 3, 1),
    }
    return pa.Table.from_pylist([{**row, "number_0": n} for n in range(count)], SCHEMA)
