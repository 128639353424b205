"""One repair, step by step.

The order of the steps is the repair's guarantee, as with the hourly run: the lock first, the
snapshot before the marker, and one commit at the end.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lockstep.accounts import Role
from lockstep.cdc.cuts import Cut, DatabaseSnapshot, exported_snapshot, mark_cut
from lockstep.cdc.run_commits import RepairCommit
from lockstep.errors import RepairRefusedError
from lockstep.model.window import Window
from lockstep.pizzeria import ORDERS_ENRICHED_BATCH, ORDERS_ENRICHED_BATCH_PARTITIONS
from lockstep.repair.orders import ChangedOrder, How, values_of
from lockstep.repair.plan import look
from lockstep.settings import Settings
from lockstep.sinks.delta_orders import replace_orders
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.delta import open_table
from lockstep.sources.postgres import connect
from lockstep.sources.window_orders import DatabaseOrder

(_DAY,) = ORDERS_ENRICHED_BATCH_PARTITIONS
_NAMED = 5
"""Orders that an error names."""


def repair_window(
    settings: Settings, window: Window, approved: Mapping[int, str], approved_by: str
) -> RepairCommit | None:
    """Make the hourly table's rows of the approved orders what the database has of them now.

    approved: the orders by id, each with the digest of what was approved (`Plan.digests`).

    Other rows stay as they are. Orders that are in the table as the database has them are passed
    over, so that repeating a repair changes nothing: then there is no commit, and None is returned.
    A failure, whatever it is, leaves the table as it was. Raises RepairRefusedError when an order
    is not any more as it was approved, WriterBusyError, and what `look` raises.
    """
    # Step 1: be the only writer, with room to write.
    # Step 2: export the snapshot that everything below reads.
    with (
        sole_writer(settings, ORDERS_ENRICHED_BATCH),
        connect(settings, Role.BATCH_READER) as exporting,
        exported_snapshot(exporting) as exported,
    ):
        # Step 3: what still differs of the approved orders, and nothing else.
        table = open_table(settings.table_uri(ORDERS_ENRICHED_BATCH))
        seen = look(table, window, exported)
        chosen = _as_approved(seen.changed, approved)
        if not chosen:
            return None
        # Step 4: mark the cut in the database's log.
        with connect(settings, Role.BATCH_READER) as marking:
            cut = mark_cut(marking, exported, run_id=str(uuid.uuid4()))
        # Step 5: replace the orders in one commit.
        commit = RepairCommit(
            window=window,
            repaired_run_id=seen.written.run.cut.run_id,
            order_ids=tuple(one.order_id for one in chosen),
            orders_after=seen.rows.num_rows + _more(chosen),
            approved_by=approved_by,
            cut=cut,
        )
        rows = [hourly_row(one.after, cut) for one in chosen if one.after is not None]
        replace_orders(table, rows, window, commit.order_ids, commit.as_json())
    return commit


def _as_approved(
    changed: Iterable[ChangedOrder], approved: Mapping[int, str]
) -> Sequence[ChangedOrder]:
    chosen = [one for one in changed if one.order_id in approved]
    again = [one.order_id for one in chosen if one.digest != approved[one.order_id]]
    if again:
        named = ", ".join(map(str, again[:_NAMED])) + (", …" if len(again) > _NAMED else "")
        raise RepairRefusedError(
            f"{len(again):,} of {len(approved):,} orders ({named}) are not any more as they were "
            "shown and approved; nothing was written: look at them again"
        )
    return chosen


def _more(chosen: Iterable[ChangedOrder]) -> int:
    """By how many orders the window grows."""
    return sum({How.NEW: 1, How.CANCELLED: -1}.get(one.how, 0) for one in chosen)


def hourly_row(order: DatabaseOrder, cut: Cut) -> dict[str, Any]:
    """An order's row of the hourly table at a cut, as batch/rows.py makes it in Spark."""
    return {
        "order_id": order.order_id,
        **values_of(order),
        _DAY: order.order_time.date(),  # the connection gives UTC
        "run_id": cut.run_id,
        "cut_snapshot": cut.snapshot,
        "cut_lsn": cut.marker_lsn,
        "origin": {
            "table_assignment_id": order.table_assignment_id,
            "pizza_ids": order.pizza_ids,
            "tx_id": DatabaseSnapshot.parse(cut.snapshot).full_tx_id(order.row_xid),
            "committed_at": order.row_committed_at,
        },
    }
