"""Did every committed change reach the change topic, once its transaction is taken as a whole?

Reads Debezium's records as plain JSON: the streams' own decoder is not leant on.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lockstep.cdc.cuts import XID_SPAN
from pizzeria.names import CLIENTS, PIZZAS, TABLES

from lockstep_tools.soak.findings import Finding, findings_of
from lockstep_tools.soak.open_transactions import MESSAGE_PREFIX, MESSAGES, Written

CHECK = "capture"
SUBJECT = "change topic"
_TABLES = (CLIENTS, PIZZAS, TABLES)


@dataclass
class Captured:
    """What the topic says of one transaction: its changes by name, and each END's counts."""

    orders: dict[tuple[str, str, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    ends: list[Counter[str]] = field(default_factory=list)
    repeated: int = 0


def read_captured(values: Iterable[bytes | None]) -> dict[int, Captured]:
    """The records by the 32-bit id of their transaction; others are passed over."""
    found: dict[int, Captured] = defaultdict(Captured)
    for value in values:
        record = json.loads(value) if value else {}
        if record.get("status") == "END":
            found[int(record["id"].split(":")[0])].ends.append(_counts(record))
        elif record.get("transaction") and (change := _change(record)):
            captured = found[int(record["transaction"]["id"].split(":")[0])]
            captured.repeated += bool(captured.orders[change])
            captured.orders[change].add(record["transaction"]["total_order"])
    return found


def _counts(end: dict) -> Counter[str]:
    """Changes by table; what is of no table are the messages."""
    counts = Counter(
        {
            name.removeprefix("public."): int(part["event_count"])
            for part in end["data_collections"] or ()
            if (name := part["data_collection"]).startswith("public.")
        }
    )
    counts[MESSAGES] = int(end["event_count"]) - counts.total()
    return +counts


def _change(record: dict) -> tuple[str, str, str] | None:
    from base64 import b64decode

    if record["op"] == "m":
        message = record["message"]
        if message["prefix"] != MESSAGE_PREFIX:
            return None
        return MESSAGES, "m", b64decode(message["content"]).decode()
    table = record["source"]["table"]
    if table not in _TABLES:
        return None
    row = record["before"] if record["op"] == "d" else record["after"]
    return table, record["op"], row["name"]


def check_captured(
    committed: Sequence[Written], aborted: Sequence[Written], found: dict[int, Captured]
) -> list[Finding]:
    """Findings where the topic does not say what was committed, transaction by transaction."""
    lost, wrong_ends, moved = [], [], []
    for one in committed:
        captured = found.get(one.tx_id % XID_SPAN, Captured())
        missing = [change for change in one.changes if change not in captured.orders]
        if missing:
            lost.append(f"{one.label}: {len(missing)} of {len(one.changes)}: {missing[:3]}")
        if not captured.ends or any(counts != one.counts for counts in captured.ends):
            wrong_ends.append(f"{one.label}: {captured.ends} for {one.counts}")
        taken = Counter(order for orders in captured.orders.values() for order in orders)
        if set(taken.values()) - {1} or any(len(o) > 1 for o in captured.orders.values()):
            moved.append(one.label)
    never = [one.label for one in aborted if one.tx_id % XID_SPAN in found]
    return [
        *findings_of(CHECK, SUBJECT, "lacks changes of a committed transaction", lost),
        *findings_of(CHECK, SUBJECT, "has an END that counts wrong, or none", wrong_ends),
        *findings_of(CHECK, SUBJECT, "has changes at several places of a transaction", moved),
        *findings_of(CHECK, SUBJECT, "has a transaction that was never committed", never),
    ]
