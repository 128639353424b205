"""What makes hourly run and stream differ: a price that changes, an order that commits late."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from lockstep.accounts import Role
from lockstep.settings import Settings
from lockstep.sources.postgres import connect
from pizzeria.shop.backdate import place_orders_at
from pizzeria.shop.incidents import open_order, raise_price

pytestmark = pytest.mark.services

TAKEN = datetime(2024, 2, 28, 11, 58, tzinfo=UTC)


def orders_and_outbox(settings: Settings) -> tuple[int, int]:
    with connect(settings, Role.ADMIN) as connection:
        return connection.execute(
            "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM orders_outbox)"
        ).fetchone()


def test_an_open_order_is_seen_only_after_its_commit(shop: Settings) -> None:
    with open_order(shop, TAKEN, seed=1) as late:
        assert orders_and_outbox(shop) == (0, 0)
        late.commit()
        late.commit()
        assert orders_and_outbox(shop) == (1, 1)
    with connect(shop, Role.ADMIN) as connection:
        row = connection.execute("SELECT id, order_time FROM orders").fetchone()
    assert row == (late.order_id, TAKEN)


def test_an_open_order_that_is_never_committed_was_never_placed(shop: Settings) -> None:
    with pytest.raises(RuntimeError), open_order(shop, TAKEN, seed=1):
        raise RuntimeError
    assert orders_and_outbox(shop) == (0, 0)


def test_a_raised_price_is_on_the_menu(shop: Settings) -> None:
    place_orders_at(shop, [TAKEN], seed=1)  # there is a menu now
    change = raise_price(shop, Decimal("0.50"))
    assert change.after == change.before + Decimal("0.50")
    with connect(shop, Role.ADMIN) as connection:
        (price,) = connection.execute(
            "SELECT price FROM pizzas WHERE name = %s ORDER BY id LIMIT 1", [change.pizza]
        ).fetchone()
    assert price == change.after
