"""Compares the outbox mode's change log with what the database itself published.

The truth is PostgreSQL's own outbox table, read after the stream has caught up; nothing between the
two (log, Debezium, Kafka, Spark) is asked.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.sources.delta import run_query
from lockstep.sources.postgres import connect
from pizzeria.names import Login

from lockstep_tools.soak.change_logs import open_change_log
from lockstep_tools.soak.findings import Finding, findings_of

_PUBLISHED_SQL = Path(__file__).parent / "postgres" / "published.sql"
_LOGGED_SQL = """
SELECT order_id, op, order_time, client_name, table_name, pizzas, commit_lsn FROM change_log
WHERE commit_lsn > {after_lsn} ORDER BY order_id, commit_lsn
"""


class Content(NamedTuple):
    """An order's state as one transaction left it; all but op are None in a delete."""

    op: str
    order_time: datetime | None
    client_name: str | None
    table_name: str | None
    pizzas: tuple[tuple[str | None, Decimal | None], ...] | None


@dataclass(frozen=True)
class Published:
    """One order in one transaction; `position` grows with an order's commits, in each own way."""

    order_id: int
    content: Content
    position: datetime | int


def check_published(
    settings: Settings, mode: StreamMode = StreamMode.OUTBOX, after_lsn: int = -1
) -> list[Finding]:
    """Findings where the sequence of an order's changes is not what its transactions published.

    The stream has caught up with the database, and nothing is written meanwhile. after_lsn: leave
    older changes aside, of orders that the outbox table has lost to a truncation since.
    """
    log = open_change_log(settings, mode)
    logged = run_query(_LOGGED_SQL.format(after_lsn=after_lsn), {"change_log": log.table})
    changes = [
        Published(row["order_id"], _logged_content(row), row["commit_lsn"])
        for part in logged
        for row in part.to_pylist()
    ]
    return compare(mode, list(read_published(settings)), changes)


def read_published(settings: Settings) -> Iterator[Published]:
    """Every order and transaction of the outbox table, by order and then in commit order."""
    with connect(settings, Login.SHOP) as connection:
        for order_id, ops, payload, committed_at in connection.execute(
            _PUBLISHED_SQL.read_text(encoding="utf-8")
        ):
            yield Published(order_id, _published_content(folded(ops), payload), committed_at)


def folded(ops: list[str]) -> str:
    """The op of several in one transaction: deleted at its end, else created in it, else updated.

    "d" when the last is d, else "c" when the first is c, else "u".
    """
    if ops[-1] == "d":
        return "d"
    return "c" if ops[0] == "c" else "u"


def compare(mode: StreamMode, published: list[Published], logged: list[Published]) -> list[Finding]:
    """Findings, order by order; both lists come by order, and then in commit order.

    What an initial snapshot (position 0) had taken in may be missing from before an order's first
    change, if it was published before all that was not; without a snapshot nothing may.
    """
    mine, theirs = _by_order(logged), _by_order(published)
    has_snapshot = any(one.position == 0 for one in logged)
    differences, folds = [], []
    for order_id in sorted(mine.keys() | theirs.keys()):
        seen, truth = mine.get(order_id, []), theirs.get(order_id, [])
        changes = sum(one.position != 0 for one in seen)
        before = max(0, len(truth) - changes) if has_snapshot else 0
        folds.append((truth[:before], truth[before:]))
        differences += _differing(order_id, seen, truth, before)
    return [
        *findings_of("published", mode, "changes are not what was published", differences),
        *findings_of("published", mode, "published and never seen", _too_late(folds)),
    ]


def _differing(
    order_id: int, seen: list[Published], truth: list[Published], before: int
) -> Iterator[str]:
    """Where an order's changes are not those published; `before` were before the snapshot."""
    expected = [one.content for one in truth[before:]]
    if before and truth[before - 1].content.op != "d":
        expected.insert(0, truth[before - 1].content._replace(op="c"))
    found = [one.content._replace(op="c") if one.position == 0 else one.content for one in seen]
    for number in range(max(len(found), len(expected))):
        pair = tuple(one[number] if number < len(one) else None for one in (found, expected))
        if pair[0] != pair[1]:
            yield f"order {order_id}, change {number + 1}: {pair[0]}, published was {pair[1]}"
            return


def _too_late(folds: list[tuple[list[Published], list[Published]]]) -> list[str]:
    """Transactions taken to be before the snapshot, though others before them were not."""
    first_after = min((one.position for _, after in folds for one in after), default=None)
    return [
        f"order {one.order_id}, {one.content.op} at {one.position}"
        for before, _ in folds
        for one in before
        if first_after is not None and one.position > first_after
    ]


def _by_order(changes: list[Published]) -> dict[int, list[Published]]:
    return {key: list(group) for key, group in groupby(changes, attrgetter("order_id"))}


def _published_content(op: str, payload: str) -> Content:
    value = json.loads(payload, parse_float=Decimal, parse_int=Decimal)
    if op == "d":
        return Content("d", None, None, None, None)
    return Content(
        op,
        datetime.fromisoformat(value["order_time"]),
        value["client_name"],
        value["table_name"],
        tuple((item["pizza"], item["price"]) for item in value["pizzas"]),
    )


def _logged_content(row: dict) -> Content:
    pizzas = row["pizzas"]
    return Content(
        row["op"],
        row["order_time"] and row["order_time"].astimezone(UTC),
        row["client_name"],
        row["table_name"],
        None if pizzas is None else tuple((item["pizza"], item["price"]) for item in pizzas),
    )
