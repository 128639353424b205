"""What explains each differing row: both sides' values, and the change behind the difference."""

import base64
import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal

from lockstep.ledger.entries import Difference
from lockstep.model.verdict import DifferenceClass
from lockstep.parity.lost_orders import where_lost
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.row_keys import Key
from lockstep.settings import Settings

CHANGE = ("op", "tx_id", "commit_lsn", "committed_at")
SEEN = ("op", "tx_id", "committed_at")
"""Of the row's change that a raced look-up saw."""
LOST_LOOKED_FOR = 20
"""Missing rows that are searched in the change topic; each costs a second at the most."""


def differences(settings: Settings, plan: Plan, rows: Sequence[dict]) -> list[Difference]:
    """The rows of a comparison, each with its evidence.

    Only rows that the stream lacks are looked for elsewhere: in the change topic.
    """
    key, values = plan.result.key, plan.result.values
    lost = [row for row in rows if row["class"] == DifferenceClass.MISSING_IN_STREAM]
    found = where_lost(settings, plan.fact, [_origin(key, row) for row in lost[:LOST_LOOKED_FOR]])
    return [
        Difference(
            kind=DifferenceClass(row["class"]),
            key=plan.row_keys.text(_key(key, row)),
            differing_columns=json.dumps(row["differing_columns"]),
            batch=_text(_picked(row["batch"], values)),
            stream=_text(_picked(row["stream"], values)) if row["in_stream"] else None,
            evidence=_text(_evidence(row) | found.get(_key(key, row), {})),
        )
        for row in rows
    ]


def _evidence(row: dict) -> dict:
    kind = DifferenceClass(row["class"])
    stream, after = _picked(row["stream"], CHANGE), _picked(row["after_cut"], CHANGE)
    if kind is DifferenceClass.CHANGED_AFTER_CUT:
        what = "new" if row["batch"] is None else "updated"
        return {"what": "cancelled" if after["op"] == "d" else what, "change": after}
    evidence: dict = {"change": stream}
    if row["batch"] is not None:
        evidence["written"] = _written(row)
    match kind:
        case DifferenceClass.DUPLICATE_IN_STREAM:
            evidence["repeated_changes"] = row["repeated_changes"]
        case DifferenceClass.MISSING_IN_STREAM:
            evidence["after_cut"] = after
        case DifferenceClass.DIMENSION_DRIFT:
            evidence["explained_by"] = row["changes"]
        case DifferenceClass.LOOKUP_RACE:
            evidence["explained_by"] = row["changes"]
            evidence["seen"] = _picked(row["seen"], SEEN)
        case DifferenceClass.VALUE_MISMATCH:
            of_row = row["batch"]["origin"]["tx_id"]
            evidence["is_same_transaction"] = stream["tx_id"] in (None, of_row)
            if row["stream"]["is_raced"]:
                evidence["looked_up"] = _looked_up(row["stream"]["look_up"])
    return evidence


def _looked_up(look_up: dict | None) -> str:
    """Why a row that is marked as raced is a mismatch all the same."""
    if look_up is None:
        return "by a version that kept no snapshot to prove it with"
    return f"at the snapshot {look_up['snapshot']}, where the database held other values"


def _written(row: dict) -> dict:
    """The transaction that wrote the row of the fact which the hourly run read."""
    origin = row["batch"]["origin"]
    return {"tx_id": origin["tx_id"], "committed_at": origin["committed_at"]}


def _origin(key: Sequence[str], row: dict) -> tuple[Key, int, datetime | None]:
    origin = row["batch"]["origin"]
    return _key(key, row), origin["tx_id"], origin["committed_at"]


def _key(key: Sequence[str], row: dict) -> Key:
    return tuple(row[name] for name in key)


def _picked(value: dict | None, names: Iterable[str]) -> dict | None:
    return None if value is None else {name: value[name] for name in names}


def _text(value: dict | None) -> str | None:
    return None if value is None else json.dumps(value, default=_plain)


def _plain(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value)} is no value of a row")
