"""Counts orders, pizzas and revenue as the database holds them. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import psycopg

_TOTALS = """
SELECT
    count(DISTINCT orders.id),
    count(ordered.pizza_id),
    coalesce(sum(pizzas.price), 0)
FROM orders
LEFT JOIN unnest(orders.pizzas) AS ordered (pizza_id) ON TRUE
LEFT JOIN pizzas ON pizzas.id = ordered.pizza_id
WHERE orders.id = ANY(%s)
"""


@dataclass(frozen=True)
class Totals:
    """Revenue is at the menu's present prices."""

    orders: int
    pizzas: int
    revenue: Decimal


def totals_of(connection: psycopg.Connection, order_ids: Sequence[int]) -> Totals:
    """The totals of these orders, as committed now."""
    return Totals(*connection.execute(_TOTALS, [list(order_ids)]).fetchone())
