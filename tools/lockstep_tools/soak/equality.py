"""Compares change logs with each other, change by change, and each with the rules of its own.

By SQL over the Delta tables; nothing of the streams' code is used.
"""

from lockstep.model.modes import StreamMode
from lockstep.settings import Settings

from lockstep_tools.soak.change_logs import ChangeLog, ask, open_change_log
from lockstep_tools.soak.findings import Finding, findings_of


def check_equal(
    settings: Settings, mode: StreamMode, reference: StreamMode = StreamMode.OUTBOX
) -> list[Finding]:
    """Findings where a mode's changes differ from another mode's, by (order_id, commit_lsn).

    All columns but the times, over changes after the initial snapshot and up to the lower of the
    two frontiers. Only the look-up is excused, where it marked a row: for what it looked up.
    """
    mine, theirs = open_change_log(settings, mode), open_change_log(settings, reference)
    rows = ask(
        "differences",
        {"change_log": mine.table, "reference": theirs.table},
        frontier=min(mine.frontier, theirs.frontier),
    ).to_pylist()
    excused = mode is StreamMode.LOOKUP
    cases = [_case(row) for row in rows if not (excused and row["is_excused"])]
    return findings_of("equality", mode, f"changes differ from {reference}'s", cases)


def _case(row: dict) -> str:
    what = [name for name, value in row.items() if value is True and name != "is_excused"]
    what = [name for name in what if name in ("is_extra", "is_missing")] or what
    return f"order {row['order_id']} at {row['commit_lsn']}: {', '.join(what)}"


def check_positions(settings: Settings, mode: StreamMode) -> list[Finding]:
    """Findings where a change log breaks its own rules, whatever the database did.

    One change of an order at a position; one transaction at a position and one position of a
    transaction; nothing beyond the frontier; rows marked as raced by the look-up alone.
    """
    log = open_change_log(settings, mode)
    tables = {"change_log": log.table}
    repeated = ask("repeated_positions", tables).to_pylist()
    mixed = ask("mixed_transactions", tables).to_pylist()
    return [
        *findings_of("positions", mode, "an order more than once at one position", repeated),
        *findings_of("positions", mode, "positions and transactions do not pair", mixed),
        *_bounds(log),
    ]


def _bounds(log: ChangeLog) -> list[Finding]:
    (row,) = ask("bounds", {"change_log": log.table}).to_pylist()
    found = []
    if row["last_lsn"] is not None and row["last_lsn"] > log.frontier:
        text = f"a change at {row['last_lsn']}, beyond the frontier {log.frontier}"
        found.append(Finding("positions", log.mode, text))
    if row["raced"] and log.mode is not StreamMode.LOOKUP:
        found.append(Finding("positions", log.mode, "rows marked as raced", row["raced"]))
    return found
