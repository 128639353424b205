"""Makes tests/data/small_pizzeria: an invented pizzeria with known totals, in the layout of the
pizza-place data set. Run it again and the same bytes come out; totals.json is counted here, apart
from any code of the product."""

import csv
import json
import random
from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

FOLDER = Path(__file__).parent / "small_pizzeria"
SEED = 7
FIRST_DAY = datetime(2024, 2, 28)  # UTC, as the files; with a leap day
OPENING_HOURS = (11, 12, 13, 17, 18, 19, 20, 21)  # nothing in between: empty hours exist
ORDERS = 300
# (name, category, ingredients, small price): a comma, quotes and letters beyond ASCII included.
TYPES = {
    "aurora": ("Aurora", "Classic", "Tomatoes, Smoked Scamorza, Basil", "8.90"),
    "bosco": ("Bosco", "Vegetarian", "Porcini, Thyme, Garlic", "9.75"),
    "canale": ("Canale Grande", "Seafood", "Clams, Lemon, Parsley", "12.10"),
    "dolce": ("Dolce, ma piccante", "Spicy", "Honey, Chili, Goat Cheese", "10.05"),
    "etna": ('"Etna"', "Spicy", "’Nduja, Red Onions, Chili", "11.25"),  # noqa: RUF001
    "fjord": ("Fjørd", "Seafood", "Smoked Trout, Dill, Crème fraîche", "12.80"),
}
SIZES = {"s": "0.00", "m": "2.15", "l": "4.35"}


def main() -> None:
    rng = random.Random(SEED)
    prices = {
        f"{type_}_{size}": Decimal(row[3]) + Decimal(extra)
        for type_, row in TYPES.items()
        for size, extra in SIZES.items()
    }
    times = order_times(rng)
    lines = [
        (order_id, rng.choice(list(prices)), rng.choice((1, 1, 1, 1, 2, 3)))
        for order_id in times
        for _ in range(rng.choice((1, 1, 2, 2, 3, 5)))
    ]
    write_files(prices, times, lines)
    write_totals(prices, times, lines)


def order_times(rng: random.Random) -> dict[int, datetime]:
    """Three days; some orders stand exactly on an hour's bounds, some share an instant."""
    moments = [
        FIRST_DAY
        + timedelta(days=rng.randrange(3), hours=rng.choice(OPENING_HOURS))
        + timedelta(seconds=rng.choice((0, 3599, *range(60, 3540, 7))))
        for _ in range(ORDERS - 3)
    ]
    noon = FIRST_DAY.replace(hour=12)
    moments += [noon, noon, noon - timedelta(seconds=1)]
    return dict(enumerate(sorted(moments), start=1))


def write_files(prices: dict, times: dict, lines: list) -> None:
    FOLDER.mkdir(exist_ok=True)
    write(
        "pizza_types.csv",
        ("pizza_type_id", "name", "category", "ingredients"),
        [(type_, *row[:3]) for type_, row in TYPES.items()],
    )
    write(
        "pizzas.csv",
        ("pizza_id", "pizza_type_id", "size", "price"),
        [(id_, id_[:-2], id_[-1].upper(), price) for id_, price in prices.items()],
    )
    write(
        "orders.csv",
        ("order_id", "date", "time"),
        [(id_, moment.date(), moment.time()) for id_, moment in times.items()],
    )
    write(
        "order_details.csv",
        ("order_details_id", "order_id", "pizza_id", "quantity"),
        [(number, *line) for number, line in enumerate(lines, start=1)],
    )


def write(name: str, header: tuple, rows: list) -> None:
    with (FOLDER / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([header, *rows])


def write_totals(prices: dict, times: dict, lines: list) -> None:
    hours: dict = defaultdict(lambda: {"orders": 0, "pizzas": 0, "revenue": Decimal(0)})
    hour_of = {id_: f"{moment:%Y-%m-%dT%H}:00:00Z" for id_, moment in times.items()}
    for order_id in times:
        hours[hour_of[order_id]]["orders"] += 1
    for order_id, pizza_id, quantity in lines:
        hours[hour_of[order_id]]["pizzas"] += quantity
        hours[hour_of[order_id]]["revenue"] += prices[pizza_id] * quantity
    totals = {
        key: sum(hour[key] for hour in hours.values()) for key in ("orders", "pizzas", "revenue")
    }
    text = json.dumps({**totals, "by_hour": hours}, indent=2, default=str)
    (FOLDER / "totals.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
