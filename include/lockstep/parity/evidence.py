"""What explains each differing row: both sides' values, and the change behind the difference."""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lockstep.ledger.entries import Difference
from lockstep.model.verdict import DifferenceClass
from lockstep.parity.cause import Change
from lockstep.parity.differing import Commit, DifferingRow, Seen
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import Key

LOST_LOOKED_FOR = 20
"""Missing rows that are searched in the change topic; each costs a second at the most."""


def lost_rows(rows: Sequence[DifferingRow]) -> list[tuple[Key, int, datetime | None]]:
    """The first rows that the stream lacks: key, transaction and commit time in the database."""
    lost = [one for one in rows if one.kind is DifferenceClass.MISSING_IN_STREAM]
    return [
        (one.key, written["tx_id"], written["committed_at"])
        for one in lost[:LOST_LOOKED_FOR]
        if (written := _written(one)) is not None and written["tx_id"] is not None
    ]


def differences(
    plan: Plan, rows: Sequence[DifferingRow], found: Mapping[Key, dict]
) -> list[Difference]:
    """The rows of a comparison, each with its evidence.

    found: what was found elsewhere of rows that the stream lacks (lost_orders.py).
    """
    return [
        Difference(
            kind=one.kind,
            key=plan.row_keys.text(one.key),
            differing_columns=json.dumps(one.columns),
            batch=_text(one.batch),
            stream=_text(one.stream.values) if one.in_stream else None,
            evidence=_text(_evidence(one) | found.get(one.key, {})),
        )
        for one in rows
    ]


def _evidence(one: DifferingRow) -> dict[str, Any]:
    stream = one.stream and _commit(one.stream.commit)
    after = one.after_cut and _commit(one.after_cut)
    if one.kind is DifferenceClass.CHANGED_AFTER_CUT:
        what = "new" if one.batch is None else "updated"
        return {"what": "cancelled" if after["op"] == "d" else what, "change": after}
    evidence: dict[str, Any] = {"change": stream}
    if one.batch is not None:
        evidence["written"] = _written(one)
    match one.kind:
        case DifferenceClass.DUPLICATE_IN_STREAM:
            evidence["repeated_changes"] = one.repeated_changes
        case DifferenceClass.MISSING_IN_STREAM:
            evidence["after_cut"] = after
        case DifferenceClass.DIMENSION_DRIFT:
            evidence["explained_by"] = _explained_by(one)
        case DifferenceClass.LOOKUP_RACE:
            evidence["explained_by"] = _explained_by(one)
            evidence["seen"] = one.seen and _seen(one.seen)
        case DifferenceClass.VALUE_MISMATCH:
            evidence |= _of_mismatch(one)
    return evidence


def _of_mismatch(one: DifferingRow) -> dict[str, Any]:
    written, stream = _written(one), one.stream
    of_row = written and written["tx_id"]
    evidence: dict[str, Any] = {"is_same_transaction": stream.commit.tx_id in (None, of_row)}
    if one.batch_rows > 1:
        evidence["batch_rows"] = one.batch_rows
    if stream.is_raced:
        evidence["looked_up"] = _looked_up(stream.looked_up_at)
    if one.by_query is not None:
        sides = dict(zip(("stream", "batch"), one.by_query, strict=True))
        evidence["by_query"] = {
            name: {side: values[name] for side, values in sides.items() if values is not None}
            for name in one.columns
        }
    return evidence


def _looked_up(snapshot: str | None) -> str:
    """Why a row that is marked as raced is a mismatch all the same."""
    if snapshot is None:
        return "by a version that kept no snapshot to prove it with"
    return f"at the snapshot {snapshot}, where the database held other values"


def _written(one: DifferingRow) -> dict[str, Any] | None:
    """The transaction that wrote the row of the fact which the hourly run read.

    As the hourly table says, else the source's history; None when neither does.
    """
    if one.origin is not None:
        return dict(one.origin)
    version = one.in_source
    return version and {"tx_id": version.tx_id, "committed_at": version.committed_at}


def _commit(commit: Commit) -> dict[str, Any]:
    return {
        "op": commit.op,
        "tx_id": commit.tx_id,
        "commit_lsn": commit.commit_lsn,
        "committed_at": commit.committed_at,
    }


def _seen(seen: Seen) -> dict[str, Any]:
    version = seen.version
    return {"op": seen.op, "tx_id": version.tx_id, "committed_at": version.committed_at}


def _explained_by(one: DifferingRow) -> list[dict[str, Any]]:
    """Each changed column of each row once, though it may be behind several of the result's."""
    found = {
        (change.table, change.row_key, change.commit_lsn, column): _change(change, column)
        for of_column in one.causes.values()
        for change in of_column
        for column in change.columns
    }
    return list(found.values())


def _change(change: Change, column: str) -> dict[str, Any]:
    before, after = change.columns[column]
    return {
        "table": _table(change.table),
        "id": _row(change.row_key),
        "column": column,
        "from": _value(before),
        "to": _value(after),
        "tx_id": change.tx_id,
        "committed_at": change.committed_at,
    }


def _table(table: TableName) -> str:
    """As the author may write it in query.sql."""
    return table.name if TableName.parse(table.name) == table else str(table)


def _row(row_key: str) -> Any:
    """A key of one column is its value."""
    values = json.loads(row_key)
    return values[0] if len(values) == 1 else row_key


def _value(value: Any) -> Any:
    """A column's value as text; null is null."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=_plain).strip('"')


def _text(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value, default=_plain)


def _plain(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value)} is no value of a row")
