"""A transaction of tables that are in memory alone, as a stream gets it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lockstep.cdc.records import Change
from lockstep.cdc.transactions import OffsetRange, Transaction
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan, PlannedTable
from lockstep.pipeline.values import comparable
from lockstep.streams.ops import CREATED, DELETED, UPDATED
from lockstep.streams.table_rows import Key, TableRow, text_of

Values = tuple[object, ...]
State = dict[TableName, dict[Key, Values]]
Write = tuple[TableName, str, TableRow]
"""Its table, c, u or d, and the row; a change of a key is a delete and an insert."""
LSN_STEP = 10
_VERBS = {CREATED: "insert", UPDATED: "update", DELETED: "delete"}


@dataclass(frozen=True)
class MadeUp:
    """before, after: the rows that there were, by table and key. touched: the keys of the fact
    whose row of the result it makes, those of changed children's owners among them."""

    transaction: Transaction
    before: Mapping[TableName, Mapping[Key, Values]]
    after: Mapping[TableName, Mapping[Key, Values]]
    touched: frozenset[Key]


def empty_state(plan: Plan) -> State:
    return {name: {} for name in plan.tables}


def copied(state: State) -> State:
    return {name: dict(rows) for name, rows in state.items()}


def made_up(
    plan: Plan, number: int, writes: Sequence[Write], before: State, after: State
) -> MadeUp:
    """The transaction of a number, from 1, that makes `after` of `before`."""
    changes = [
        Change(place, number, place, text_of(name), op, row, place, place)
        for place, (name, op, row) in enumerate(writes, start=1)
    ]
    lsn = number * LSN_STEP
    transaction = Transaction(number, lsn, lsn, changes, OffsetRange(lsn, lsn), len(changes))
    return MadeUp(transaction, before, after, _touched(plan, writes, before, after))


def written(plan: Plan, transaction: Transaction) -> tuple[str, ...]:
    """What a transaction did, a line for each of its writes."""
    tables = {text_of(name): table for name, table in plan.tables.items()}
    return tuple(_written(tables[change.table], change) for change in transaction.changes)


def _written(table: PlannedTable, change: Change) -> str:
    row = change.row
    names, values = (table.key, row.key) if row.values is None else (table.columns, row.values)
    shown = ", ".join(f"{name} {value!r}" for name, value in zip(names, values, strict=True))
    return f"{_VERBS[change.op]} {table.name}: {shown}"


def _touched(plan: Plan, writes: Sequence[Write], before: State, after: State) -> frozenset[Key]:
    found = {row.key for name, _, row in writes if name == plan.fact.name}
    living = after[plan.fact.name]
    for child, columns in plan.children.items():
        places = [plan.tables[child].columns.index(column) for column in columns]
        for key in {row.key for name, _, row in writes if name == child}:
            for rows in (before[child], after[child]):
                owner = tuple(comparable(rows[key][at]) for at in places) if key in rows else None
                if owner in living:
                    found.add(owner)
    return frozenset(found)
