"""What the comparison of a window found, for terminals and task logs: at most 100 columns."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from lockstep.ledger.formatting import coloured
from lockstep.model.verdict import DifferenceClass
from lockstep.model.window import Window
from lockstep.parity.cause import Change
from lockstep.parity.pipeline_comparison import Comparison, Difference, StreamChange
from lockstep.parity.versions import Version
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan

SHOWN = 20


def print_comparison(
    console: Console, plan: Plan, mode: Mode, window: Window, found: Comparison
) -> None:
    """First the rows that differ, then the summary, then what is not in the table."""
    for part in differing_rows(plan, found):
        console.print(part)
    console.print(summary(plan, mode, window, found))
    if found.counts and found.reason:
        console.print(f"fails by: {found.reason}", markup=False)
    if found.unexplained:
        console.print(
            f"{found.unexplained:,} of value_mismatch were not looked into, since there are so "
            "many: they may be drifts, and fail the window all the same",
            markup=False,
        )


def summary(plan: Plan, mode: Mode, window: Window, found: Comparison) -> RenderableType:
    """One row: verdict, rows compared, and how many differ by which class."""
    table = Table(title=f"{plan.name} of {window}", title_justify="left")
    table.add_column("mode")
    table.add_column("verdict")
    table.add_column("rows", justify="right")
    table.add_column("differing rows by class", overflow="fold")
    counted = ", ".join(f"{n:,} {kind}" for kind, n in found.counts.items())
    verdict = coloured(found.verdict, found.verdict)
    table.add_row(mode, verdict, f"{found.rows:,}", escape(counted or found.reason))
    return table


def differing_rows(plan: Plan, found: Comparison) -> Iterable[RenderableType]:
    """The first differing rows, with what explains each."""
    if not found.differences:
        return
    table = Table(show_lines=True, expand=True)
    table.add_column("key, class", overflow="fold", ratio=5)
    table.add_column("hourly | stream", overflow="fold", ratio=6)
    table.add_column("because", overflow="fold", ratio=9)
    for one in found.differences[:SHOWN]:
        key = ", ".join(map(_plain, one.key))
        cells = (f"{key}\n{one.kind}", both_sides(plan, one), explanation(plan, one))
        table.add_row(*map(escape, cells))
    yield table
    if (more := sum(found.counts.values()) - SHOWN) > 0:
        yield f"and {more:,} more"


def both_sides(plan: Plan, one: Difference) -> str:
    """The differing columns, hourly before stream; the whole row where one side lacks it."""
    names = plan.outputs
    if one.columns:
        places = [(name, names.index(name)) for name in one.columns]
        return "\n".join(
            f"{name}: {_plain(one.batch[n])} | {_plain(one.stream.values[n])}" for name, n in places
        )
    row = one.batch or _values(one.stream) or _values(one.after_cut) or ()
    return "\n".join(
        f"{name}: {_plain(value)}"
        for name, value in zip(names, row, strict=True)
        if name not in plan.key
    )


def explanation(plan: Plan, one: Difference) -> str:
    """The evidence in a line or a few."""
    match one.kind:
        case DifferenceClass.DUPLICATE_IN_STREAM:
            return (
                f"{one.repeated_changes:,} of its changes are there again; the last is by "
                f"{_transaction(one.stream)}"
            )
        case DifferenceClass.MISSING_IN_STREAM:
            return "\n".join(_missing_in_stream(one))
        case DifferenceClass.MISSING_IN_BATCH:
            return f"the cut sees {_op(one.stream)} by {_transaction(one.stream)}"
        case DifferenceClass.CHANGED_AFTER_CUT:
            return f"{_op(one.after_cut)} by {_transaction(one.after_cut)}, after the cut"
        case DifferenceClass.DIMENSION_DRIFT:
            return "\n".join(_caused(one))
        case _:
            return "\n".join(_mismatch(plan, one))


def _missing_in_stream(one: Difference) -> Iterable[str]:
    if one.in_source is None:
        yield "the source's history has no such row at the cut"
    else:
        yield f"written by {_transaction(one.in_source)}, as the source's history has it"
    if one.stream is not None:
        yield f"the stream has {_op(one.stream)} by {_transaction(one.stream)}"
    if one.after_cut is not None:
        yield f"the stream has it after the cut only, by {_transaction(one.after_cut)}"


def _mismatch(plan: Plan, one: Difference) -> Iterable[str]:
    """What each side is to have by the source's history, and what changed between the two."""
    if one.batch_rows > 1:
        yield f"the hourly table has this key {one.batch_rows:,} times"
    if one.in_source is not None and one.in_source.commit_lsn != one.stream.commit_lsn:
        yield (
            f"the stream has it as of {_transaction(one.stream)}; the cut sees "
            f"{_transaction(one.in_source)}"
        )
    at_commit, in_cut = one.by_query
    for name in one.columns:
        place = plan.outputs.index(name)
        at_cut = "no single row" if in_cut is None else _plain(in_cut[place])
        then = "no single row" if at_commit is None else _plain(at_commit[place])
        yield f"{name}: the query gives {at_cut} at the cut | {then} at the stream's commit"
    yield from _caused(one)


def _caused(one: Difference) -> list[str]:
    """Each change once, though it may have changed several columns of the result."""
    changes = [change for name in one.columns for change in one.causes.get(name, ())]
    merged: dict[tuple, dict] = {}
    for change in changes:
        identity = change.table, change.row_key, change.commit_lsn
        merged.setdefault(identity, {"change": change, "columns": {}})["columns"].update(
            change.columns
        )
    return [_change(each["change"], each["columns"]) for each in merged.values()]


def _change(change: Change, columns: dict) -> str:
    moved = ", ".join(f"{n} {_plain(old)} → {_plain(new)}" for n, (old, new) in columns.items())
    unseen = "" if change.is_in_cut else ", which the cut does not see"
    what = f"{change.table} {change.row_key}: {_OPS[change.op]}"
    return f"{what}{moved} by {_transaction(change)}{unseen}"


_OPS = {"c": "inserted, ", "u": "", "d": "deleted, "}
_DONE = {"c": "it inserted", "u": "it updated", "d": "it deleted"}


def _op(change: StreamChange) -> str:
    return _DONE[change.op]


def _transaction(by: StreamChange | Change | Version) -> str:
    if by.tx_id is None:
        return "the initial snapshot"
    at = f" at {_plain(by.committed_at)}" if by.committed_at else ""
    return f"transaction {by.tx_id} (LSN {by.commit_lsn}){at}"


def _values(change: StreamChange | None) -> Sequence | None:
    return None if change is None else change.values


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S.%f}".rstrip("0").rstrip(".") + "Z"
    return "null" if value is None else str(value)
