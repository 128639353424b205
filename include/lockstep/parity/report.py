"""What a comparison found, for terminals and task logs: at most 100 columns."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from lockstep.ledger.entries import Comparison, Difference
from lockstep.ledger.formatting import both_sides, coloured, explanation, plain
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.parity.check import Check
from lockstep.parity.row_story import Moment, RowState
from lockstep.pipeline.row_keys import RowKeys

SHOWN_OF_A_MODE = 10
TOLERATED = {
    DifferenceClass.DIMENSION_DRIFT: (
        "what the row is joined with changed between its own commit, as of which the stream has "
        "it, and the hourly run"
    ),
    DifferenceClass.LOOKUP_RACE: (
        "the look-up came after its change, and found what a later transaction had left"
    ),
}
"""What a manifest may tolerate, in words."""


def summary(lines: Sequence[Comparison]) -> RenderableType:
    """A row for each mode: verdict, rows compared, and how many differ by which class."""
    table = Table(title=f"parity of {lines[0].window}", title_justify="left")
    table.add_column("mode")
    table.add_column("verdict")
    table.add_column("rows", justify="right")
    table.add_column("differing rows by class", overflow="fold")
    table.add_column("seconds", justify="right")
    for line in lines:
        table.add_row(
            line.mode,
            coloured(line.verdict, line.verdict),
            f"{line.orders_compared:,}",
            ", ".join(f"{n:,} {kind}" for kind, n in line.counts.items()) or line.reason,
            f"{line.seconds:.1f}",
        )
    return table


def differences(row_keys: RowKeys, mode: StreamMode, found: Sequence[Difference]) -> Table:
    """The first SHOWN_OF_A_MODE differing rows; those that fail a window come first."""
    table = Table(title=f"mode {mode}", title_justify="left", show_lines=True)
    table.add_column(", ".join(row_keys.names), justify="right", overflow="fold")
    table.add_column("class")
    table.add_column("batch, stream", overflow="fold")
    table.add_column("because", overflow="fold")
    for one in found[:SHOWN_OF_A_MODE]:
        sides, because = escape(both_sides(one)), escape(explanation(one))
        table.add_row(escape(row_keys.shown(one.key)), one.kind, sides, because)
    return table


def print_checks(console: Console, row_keys: RowKeys, checks: Sequence[Check]) -> None:
    """First what differs, mode by mode, then the summary, then what is left to do."""
    for check in checks:
        if check.differences:
            console.print(differences(row_keys, check.line.mode, check.differences))
            more = sum(check.line.counts.values()) - min(len(check.differences), SHOWN_OF_A_MODE)
            if more > 0:  # of many only the first are kept
                console.print(f"and {more:,} more")
    lines = [check.line for check in checks]
    console.print(summary(lines))
    for line in lines:
        if line.counts and line.reason:  # where there are no counts the table has the reason
            console.print(f"{line.mode}: {line.reason}", markup=False)
    if (window := lines[0].window).end > datetime.now(UTC):
        console.print(f"{window} has not ended: run and compare it again once it has", markup=False)
    tolerated = {kind for line in lines if line.verdict is Verdict.PASS for kind in line.counts}
    for kind in sorted(tolerated & TOLERATED.keys()):
        console.print(f"{kind} is tolerated by pipeline.toml: {TOLERATED[kind]}", markup=False)
    if any(line.counts.get(DifferenceClass.CHANGED_AFTER_CUT) for line in lines):
        console.print(
            "What changed after the cut is no part of the verdict; this shows it, and merges it:\n"
            f"lockstep parity repair --start {window.start.isoformat()} "
            f"--end {window.end.isoformat()}"
        )


def story(row: str, moments: Sequence[Moment]) -> RenderableType:
    """One row over time: a line for each transaction and each group of tables that agree.

    row: its key, as people read it.
    """
    table = Table(title=escape(f"row {row}"), title_justify="left", show_lines=True)
    for title in ("committed", "by", "op", "says", "what"):
        table.add_column(title, overflow="fold")
    for moment in moments:
        when = "" if moment.at is None else f"{moment.at:%Y-%m-%d %H:%M:%S.%f}Z"
        by = f"{moment.what}\nLSN {moment.commit_lsn}"
        for place, state in enumerate(moment.states):
            first = place == 0
            table.add_row(
                when if first else "",
                by if first else "",
                state.op,
                ", ".join(state.modes),
                escape(_values_of(state)),
            )
    return table


def _values_of(state: RowState) -> str:
    if state.values is None:
        return "gone"
    return "\n".join(plain(value) for value in state.values.values())
