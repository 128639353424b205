"""The pizza-place data set: four CSV files, checked whole and turned into a menu and orders.

Pure reading: who sat where is made up in seating.py, and loader.py writes.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path

from pizzeria.errors import InputDataError
from pizzeria.shop.csv_files import Row, read_rows

MAX_QUANTITY = 1_000  # of one pizza in one line: above it, a typing error is likelier
MAX_ID = 2**63 - 1  # bigint
MAX_PRICE = Decimal("99999999.99")  # numeric(10, 2)


@dataclass(frozen=True)
class MenuPizza:
    """A pizza of one size, as the table `pizzas` holds it."""

    id: int
    name: str
    price: Decimal


@dataclass(frozen=True)
class PlacedOrder:
    """An order of the files: `pizzas` are menu ids in the order of the lines, repeated."""

    id: int
    order_time: datetime
    pizzas: tuple[int, ...]


@dataclass(frozen=True)
class PizzaPlace:
    """The whole data set; `orders` are sorted by (order_time, id)."""

    menu: tuple[MenuPizza, ...]
    orders: tuple[PlacedOrder, ...]

    @property
    def pizza_count(self) -> int:
        return sum(len(order.pizzas) for order in self.orders)

    @property
    def revenue(self) -> Decimal:
        """At the files' prices."""
        price = {pizza.id: pizza.price for pizza in self.menu}
        return sum((price[id_] for order in self.orders for id_ in order.pizzas), Decimal(0))


def read_pizza_place(folder: Path) -> PizzaPlace:
    """Read and check the four files of `folder`; times are taken as UTC.

    Raises InputDataError naming file and line for whatever cannot be loaded as it stands.
    """
    if not folder.is_dir():
        raise InputDataError(f"{folder} is not a folder; give the one that holds orders.csv")
    menu, number_of = _menu(folder)
    times = _order_times(folder / "orders.csv")
    lines = _lines(folder / "order_details.csv", number_of, times)
    orders = [PlacedOrder(id_, times[id_], pizzas) for id_, pizzas in lines.items()]
    empty = sorted(times.keys() - lines.keys())
    if empty:
        raise InputDataError(
            f"{folder / 'order_details.csv'}: no line for {len(empty)} of {len(times)} orders, "
            f"the first is order {empty[0]}; add its lines or take it out of orders.csv"
        )
    return PizzaPlace(menu, tuple(sorted(orders, key=attrgetter("order_time", "id"))))


def _menu(folder: Path) -> tuple[tuple[MenuPizza, ...], dict[str, int]]:
    """The menu, numbered from 1 by sorted pizza_id, and each pizza_id's number."""
    type_names = _unique(folder / "pizza_types.csv", "pizza_type_id", ("name",))
    sizes = _unique(folder / "pizzas.csv", "pizza_id", ("pizza_type_id", "size", "price"))
    menu, number_of = [], {}
    for number, (pizza_id, row) in enumerate(sorted(sizes.items()), start=1):
        type_row = type_names.get(row.text("pizza_type_id"))
        if type_row is None:
            raise row.error(
                f"pizza_type_id {row.text('pizza_type_id')!r} is not in pizza_types.csv; add it"
            )
        name = f"{type_row.text('name')} ({row.text('size')})"
        menu.append(MenuPizza(number, name, row.parsed("price", _price, "a price such as 12.50")))
        number_of[pizza_id] = number
    return tuple(menu), number_of


def _order_times(path: Path) -> dict[int, datetime]:
    rows = _unique(path, "order_id", ("date", "time"))
    return {
        row.parsed("order_id", _positive, "a whole number from 1"): _instant(row)
        for row in rows.values()
    }


def _lines(
    path: Path, number_of: dict[str, int], times: dict[int, datetime]
) -> dict[int, tuple[int, ...]]:
    """Each order's pizzas in the order of order_details_id, as often as their quantity says."""
    rows = _unique(path, "order_details_id", ("order_id", "pizza_id", "quantity"))
    lines = []
    for row in rows.values():
        order_id = row.parsed("order_id", _positive, "a whole number from 1")
        if order_id not in times:
            raise row.error(f"order {order_id} is not in orders.csv; add it or drop the line")
        pizza = number_of.get(row.text("pizza_id"))
        if pizza is None:
            raise row.error(f"pizza {row.text('pizza_id')!r} is not in pizzas.csv; add it")
        quantity = row.parsed("quantity", _quantity, f"a number from 1 to {MAX_QUANTITY}")
        line_id = row.parsed("order_details_id", _positive, "a whole number from 1")
        lines.append((order_id, line_id, (pizza,) * quantity))
    return {
        order_id: tuple(pizza for _, _, pizzas in group for pizza in pizzas)
        for order_id, group in groupby(sorted(lines), key=itemgetter(0))
    }


def _unique(path: Path, key: str, others: tuple[str, ...]) -> dict[str, Row]:
    """The file's rows by their key column, of which it needs one at least and no two alike."""
    rows: dict[str, Row] = {}
    for row in read_rows(path, (key, *others)):
        first = rows.setdefault(row.text(key), row)
        if first is not row:
            raise row.error(
                f"{key} {row.text(key)!r} is already in line {first.line}; drop one of them"
            )
    if not rows:
        raise InputDataError(f"{path}: no line below the header; there is nothing to load")
    return rows


def _instant(row: Row) -> datetime:
    day = row.parsed("date", date.fromisoformat, "a date such as 2015-01-31")
    clock = row.parsed("time", time.fromisoformat, "a time such as 11:38:36, in UTC")
    if clock.tzinfo is not None:
        raise row.error("time has an offset; write it in UTC, without one")
    return datetime.combine(day, clock, tzinfo=UTC)


def _positive(text: str) -> int:
    number = int(text)
    # One way to write a number, so that "7" and "07" cannot be two ids.
    if not 1 <= number <= MAX_ID or text != str(number):
        raise ValueError(text)
    return number


def _quantity(text: str) -> int:
    number = _positive(text)
    if number > MAX_QUANTITY:
        raise ValueError(text)
    return number


def _price(text: str) -> Decimal:
    price = Decimal(text)
    if not price.is_finite() or not 0 <= price <= MAX_PRICE:
        raise ValueError(text)
    cents = price.quantize(Decimal("0.01"))
    if cents != price:
        raise ValueError(text)
    return cents
