"""Counts what a change log says the shop holds now. The current state by the checks' own query."""

from decimal import Decimal

from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from pizzeria.shop.totals import Totals

from lockstep_tools.soak.change_logs import ask, open_change_log
from lockstep_tools.soak.findings import Finding

ORDER_ID_MAX = 2**63 - 1


def current_totals(
    settings: Settings, mode: StreamMode, order_ids: range = range(ORDER_ID_MAX)
) -> Totals:
    """Orders, pizzas and revenue of the last change of each order, deletes aside.

    order_ids: of these orders alone (a step of 1). Raises LakehouseError when there is no table.
    """
    log = open_change_log(settings, mode)
    bounds = {"first_order": order_ids.start, "last_order": order_ids.stop - 1}
    (row,) = ask("current_totals", {"change_log": log.table}, **bounds).to_pylist()
    return Totals(row["orders"], row["pizzas"], row["revenue"] or Decimal(0))


def check_totals(
    settings: Settings, mode: StreamMode, expected: Totals, order_ids: range = range(ORDER_ID_MAX)
) -> list[Finding]:
    """A finding when the current totals are not exactly these."""
    found = current_totals(settings, mode, order_ids)
    if found == expected:
        return []
    return [Finding("totals", mode, f"{found}, where {expected} were expected")]
