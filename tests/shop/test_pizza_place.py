"""The CSV files: read to exact totals, and refused with file and line when they are wrong."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pizzeria.errors import InputDataError
from pizzeria.shop.pizza_place import PizzaPlace, read_pizza_place

REAL = Path("/work/shared/data/pizza_place")


def test_small_data_set_has_its_recorded_totals(small: PizzaPlace, small_totals: dict) -> None:
    assert len(small.orders) == small_totals["orders"]
    assert small.pizza_count == small_totals["pizzas"]
    assert small.revenue == Decimal(small_totals["revenue"])
    hours = Counter(f"{order.order_time:%Y-%m-%dT%H}:00:00Z" for order in small.orders)
    assert hours == {hour: totals["orders"] for hour, totals in small_totals["by_hour"].items()}


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not on this machine")
def test_real_data_set_has_its_known_totals() -> None:
    data = read_pizza_place(REAL)
    assert (len(data.menu), len(data.orders), data.pizza_count) == (96, 21_350, 49_574)
    assert data.revenue == Decimal("817860.05")
    assert data.orders[0].order_time == datetime(2015, 1, 1, 11, 38, 36, tzinfo=UTC)


def test_pizzas_keep_the_order_of_the_lines_and_their_quantity(folder: Path) -> None:
    (folder / "orders.csv").write_text("order_id,date,time\n7,2024-01-01,12:00:00\n")
    (folder / "order_details.csv").write_text(
        "order_details_id,order_id,pizza_id,quantity\n"
        "10,7,aurora_l,1\n9,7,fjord_s,2\n11,7,fjord_s,1\n"
    )
    data = read_pizza_place(folder)
    names = {pizza.id: pizza.name for pizza in data.menu}
    assert [names[id_] for id_ in data.orders[0].pizzas] == [
        "Fjørd (S)",
        "Fjørd (S)",
        "Aurora (L)",
        "Fjørd (S)",
    ]


def test_menu_is_numbered_by_sorted_pizza_id(small: PizzaPlace) -> None:
    assert [pizza.id for pizza in small.menu] == list(range(1, 19))
    assert small.menu[0].name == "Aurora (L)"
    assert small.menu[0].price == Decimal("13.25")


def test_orders_are_sorted_by_time_whatever_the_order_of_lines(folder: Path) -> None:
    path = folder / "orders.csv"
    header, *lines = path.read_text().splitlines()
    expected = read_pizza_place(folder).orders
    path.write_text("\n".join([header, *reversed(lines)]) + "\n")
    assert read_pizza_place(folder).orders == expected


def test_windows_1252_files_read_the_same(folder: Path) -> None:
    expected = read_pizza_place(folder)
    path = folder / "pizza_types.csv"
    path.write_bytes(path.read_text(encoding="utf-8").encode("cp1252"))
    assert read_pizza_place(folder) == expected


def replace_line(file: str, line: int, text: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / file
        lines = path.read_text(encoding="utf-8").splitlines()
        lines[line - 1 : line] = [text]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    return damage


def keep_header(file: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / file
        path.write_text(path.read_text().splitlines()[0] + "\n")

    return damage


DETAILS, MENU = "order_details.csv", "pizzas.csv"
DAMAGES = {
    "missing file": (lambda folder: (folder / MENU).unlink(), "pizzas.csv cannot be read"),
    "empty file": (
        lambda folder: (folder / MENU).write_text(""),
        "line 1: no column pizza_id, pizza_type_id, size, price",
    ),
    "header only": (keep_header("orders.csv"), "orders.csv: no line below the header"),
    "missing column": (
        replace_line(DETAILS, 1, "order_details_id,order_id,pizza_id,amount"),
        "order_details.csv, line 1: no column quantity",
    ),
    "unknown pizza": (replace_line(DETAILS, 5, "4,2,nope_m,1"), "line 5: pizza 'nope_m'"),
    "unknown order": (replace_line(DETAILS, 5, "4,9999,aurora_m,1"), "line 5: order 9999"),
    "unknown type": (
        replace_line(MENU, 3, "x_s,x,S,1.00"),
        "pizzas.csv, line 3: pizza_type_id 'x'",
    ),
    "quantity zero": (replace_line(DETAILS, 5, "4,2,aurora_m,0"), "line 5: quantity is '0'"),
    "quantity negative": (replace_line(DETAILS, 5, "4,2,aurora_m,-1"), "quantity is '-1'"),
    "quantity huge": (replace_line(DETAILS, 5, "4,2,aurora_m,1001"), "quantity is '1001'"),
    "quantity a fraction": (replace_line(DETAILS, 5, "4,2,aurora_m,1.5"), "quantity is '1.5'"),
    "quantity empty": (replace_line(DETAILS, 5, "4,2,aurora_m,"), "line 5: quantity is empty"),
    "price not a number": (replace_line(MENU, 2, "aurora_s,aurora,S,free"), "price is 'free'"),
    "price NaN": (replace_line(MENU, 2, "aurora_s,aurora,S,NaN"), "price is 'NaN'"),
    "price negative": (replace_line(MENU, 2, "aurora_s,aurora,S,-1"), "price is '-1'"),
    "price of half a cent": (replace_line(MENU, 2, "aurora_s,aurora,S,1.005"), "is '1.005'"),
    "price too long": (replace_line(MENU, 2, "aurora_s,aurora,S,1e30"), "price is '1e30'"),
    "duplicate pizza": (replace_line(MENU, 3, "aurora_s,aurora,S,1"), "already in line 2"),
    "duplicate order": (
        replace_line("orders.csv", 4, "1,2024-02-28,11:00:00"),
        "orders.csv, line 4: order_id '1' is already in line 2",
    ),
    "duplicate line": (replace_line(DETAILS, 5, "1,2,aurora_m,1"), "line 5: order_details_id '1'"),
    "order without lines": (
        replace_line("orders.csv", 301, "300,2024-03-01,21:00:00\n301,2024-03-01,22:00:00"),
        "no line for 1 of 301 orders, the first is order 301",
    ),
    "bad date": (replace_line("orders.csv", 4, "3,2024-02-30,11:00:00"), "date is '2024-02-30'"),
    "bad time": (replace_line("orders.csv", 4, "3,2024-02-28,25:00:00"), "time is '25:00:00'"),
    "time with offset": (
        replace_line("orders.csv", 4, "3,2024-02-28,11:00:00+01:00"),
        "line 4: time has an offset",
    ),
    "order id zero": (replace_line("orders.csv", 4, "0,2024-02-28,11:00:00"), "order_id is '0'"),
    "id with a leading zero": (
        replace_line("orders.csv", 4, "03,2024-02-28,11:00:00"),
        "order_id is '03'",
    ),
    "too few fields": (replace_line(DETAILS, 5, "4,2"), "line 5: 2 fields where the header has 4"),
    "open quote": (replace_line("pizza_types.csv", 7, 'fjord,"Fj,Seafood,Dill'), "not CSV"),
    "bytes of no text": (
        lambda folder: (folder / "orders.csv").write_bytes(b"\x81\x8d"),
        "neither UTF-8 nor Windows-1252",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused_with_file_and_line(folder: Path, damage: str) -> None:
    do_damage, complaint = DAMAGES[damage]
    do_damage(folder)
    with pytest.raises(InputDataError) as caught:
        read_pizza_place(folder)
    assert complaint in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("name", ["", "absent"])
def test_folder_without_files_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputDataError, match=r"cannot be read|is not a folder"):
        read_pizza_place(tmp_path / name)
