"""Each check turns red by its own fault, and by no other; what must pass passes.

A run of Great Expectations takes half a second, so faults that different checks must find share an
hour; each hour's report must name exactly those checks.
"""

import shutil
from copy import deepcopy
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RepairCommit
from lockstep.errors import LakehouseError, WindowNotWrittenError
from lockstep.model.verdict import CheckStatus
from lockstep.pipeline.plan import plan_named
from lockstep.quality import check_window
from lockstep.quality.errors import QualityStoreError
from lockstep.quality.suite import row_checks
from pizzeria.names import MANIFEST

from tests.project import PROJECT_DIR

FAIL, WARN, PASS = CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.PASS


def without_the_last(orders):
    return orders[:-1]


def with_one_instead_of_another(orders):
    return [*orders[:-1], deepcopy(orders[3])]


def with_one_id_null(orders):
    orders[3]["order_id"] = None
    return orders


def with_one_after_the_end(orders):
    return with_one_moved_to(orders, orders[3]["order_time"] + timedelta(hours=1))


def with_one_at_the_end(orders):
    return with_one_moved_to(orders, orders[0]["order_time"] + timedelta(hours=1))


def with_one_moved_to(orders, moment):
    orders[3]["order_time"] = moment
    return orders


def with_one_time_null(orders):
    orders[3]["order_time"] = None
    return orders


def with_one_in_the_wrong_partition(orders):
    orders[3]["window_date"] += timedelta(days=1)
    return orders


def with_run(place, run_id):
    def fault(orders):
        orders[place]["run_id"] = run_id
        return orders

    return fault


def with_price(place, price):
    def fault(orders):
        orders[place]["pizzas"] = [{"pizza": "The Hawaiian Pizza (M)", "price": price}]
        return orders

    return fault


def with_one_without_pizzas(orders):
    orders[6]["pizzas"] = []
    return orders


def with_unknown(column, count):
    def fault(orders):
        for order in orders[:count]:
            order[column] = None
        return orders

    return fault


def with_unknown_pizzas(count):
    def fault(orders):
        for order in orders[:count]:
            order["pizzas"] = [*order["pizzas"], {"pizza": None, "price": None}]
        return orders

    return fault


FAULTS = {
    "row lost": ([without_the_last], {"no order lost": FAIL}),
    "row doubled, another lost": ([with_one_instead_of_another], {"order_id unique": FAIL}),
    "key null, price negative, foreign run": (
        [with_one_id_null, with_price(4, Decimal("-0.01")), with_run(5, "somebody else")],
        {"order_id present": FAIL, "prices not negative": FAIL, "one run wrote it": FAIL},
    ),
    "row after the end, price missing, clients unknown": (
        [with_one_after_the_end, with_price(4, None), with_unknown("client_name", 2)],
        {"order_time in window": FAIL, "prices present": FAIL, "client known": WARN},
    ),
    "time null, no pizzas, too many tables unknown": (
        [with_one_time_null, with_one_without_pizzas, with_unknown("table_name", 3)],
        {
            "order_time present": FAIL,
            "orders have pizzas": WARN,
            "table known": WARN,
            "table mostly known": FAIL,
        },
    ),
    "wrong partition, price huge, too many pizzas unknown": (
        [
            with_one_in_the_wrong_partition,
            with_price(4, Decimal("1000.01")),
            with_unknown_pizzas(3),
        ],
        {
            "partition is its hour": FAIL,
            "prices plausible": WARN,
            "pizzas known": WARN,
            "pizzas mostly known": FAIL,
        },
    ),
    "row at the end, no run, too many clients unknown": (
        [with_one_at_the_end, with_run(5, None), with_unknown("client_name", 3)],
        {
            "order_time in window": FAIL,
            "one run wrote it": FAIL,
            "client known": WARN,
            "client mostly known": FAIL,
        },
    ),
    "tables and pizzas unknown": (
        [with_unknown("table_name", 2), with_unknown_pizzas(2)],
        {"table known": WARN, "pizzas known": WARN},
    ),
}


@pytest.fixture(scope="module")
def faulty_table(tmp_path_factory, hourly_table_in):
    """An hour for each entry, with an hour between them for the rows written outside."""
    table = hourly_table_in(tmp_path_factory.mktemp("faults"))
    for place, (faults, _) in enumerate(FAULTS.values()):
        window = table.window(2 * place)
        orders = table.orders(window)
        for fault in faults:
            orders = fault(orders)
        table.commit(window, orders, orders_at_cut=10)
    return table


def window_of(table, name):
    return table.window(2 * list(FAULTS).index(name))


@pytest.mark.parametrize("name", FAULTS)
def test_fault_turns_its_check_red_and_no_other(faulty_table, name):
    expected = FAULTS[name][1]

    report = check_window(faulty_table.settings, window_of(faulty_table, name))

    assert {c.name: c.status for c in report.checks if c.status is not PASS} == expected
    assert report.status is (FAIL if FAIL in expected.values() else WARN)


def test_every_check_has_its_fault():
    planted = {check for _, expected in FAULTS.values() for check in expected}
    assert planted == {check.name for check in row_checks(plan_named(PROJECT_DIR, MANIFEST))}


def test_report_names_the_orders_and_the_counts(hourly_table):
    window = hourly_table.window(11)
    orders = hourly_table.orders(window)
    hourly_table.commit(window, [*orders, orders[3]], orders_at_cut=10)

    report = check_window(hourly_table.settings, window)

    twice = orders[3]["order_id"]
    assert report.failures == [
        "no order lost: 11 orders; expected 10 orders, as counted at the cut",
        f"order_id unique: all but 2 of 11 orders ({twice}, {twice}); expected no repeats",
    ]
    assert all(message in report.summary() for message in report.failures)
    assert max(map(len, report.table().splitlines())) <= 100


def test_report_names_an_order_without_a_key(hourly_table):
    window = hourly_table.window(11)
    hourly_table.commit(window, with_price(4, None)(with_one_id_null(hourly_table.orders(window))))
    priceless = hourly_table.orders(window)[4]["order_id"]

    report = check_window(hourly_table.settings, window)

    examples = {check.name: check.examples for check in report.checks if check.examples}
    assert examples == {"order_id present": ("null",), "prices present": (str(priceless),)}


def test_faultless_window_passes_and_is_in_the_docs(hourly_table):
    window = hourly_table.window(11)
    hourly_table.commit(window, hourly_table.orders(window))

    report = check_window(hourly_table.settings, window)

    assert (report.status, report.rows, report.warnings) == (PASS, 10, [])
    index = (report.data_docs / "index.html").read_text()
    assert "2015-01-01 11:00 to 12:00" in index
    assert report.data_docs_page in index


def test_a_repaired_window_is_checked_against_what_its_repair_left(hourly_table):
    window = hourly_table.window(11)
    *orders, late = hourly_table.orders(window, 11)
    hourly_table.commit(window, orders)
    cut = Cut("a repair", "900:900:", 5000, window.end)
    repair = RepairCommit(window, hourly_table.run_id(window), (late["order_id"],), 11, "Ada", cut)
    row = late | {"run_id": "a repair"}

    hourly_table.append([row], metadata={"userMetadata": repair.as_json()})

    assert check_window(hourly_table.settings, window).status is PASS
    hourly_table.append([row | {"order_id": 1, "run_id": "nobody's"}])
    report = check_window(hourly_table.settings, window)
    assert [failure.partition(":")[0] for failure in report.failures] == [
        "no order lost",
        "one run wrote it",
    ]
    assert "run of 11, repaired by a repair" in report.summary()


def test_quiet_hour_passes(hourly_table):
    window = hourly_table.window(4)
    hourly_table.commit(window, [])
    report = check_window(hourly_table.settings, window)
    assert (report.status, report.rows) == (PASS, 0)


def test_quiet_hour_fails_when_the_database_counted_orders(hourly_table):
    window = hourly_table.window(4)
    hourly_table.commit(window, [], orders_at_cut=1)
    report = check_window(hourly_table.settings, window)
    assert report.failures == ["no order lost: 0 orders; expected 1 orders, as counted at the cut"]


def test_neighbouring_hours_are_not_looked_at(hourly_table):
    for hour, fault in ((10, without_the_last), (11, list), (12, with_one_id_null)):
        window = hourly_table.window(hour)
        hourly_table.commit(window, fault(hourly_table.orders(window)), orders_at_cut=10)
    assert check_window(hourly_table.settings, hourly_table.window(11)).status is PASS


def test_window_over_midnight_is_read_from_both_partitions(hourly_table):
    window = hourly_table.window(23, hours=2)
    evening = hourly_table.orders(hourly_table.window(23))
    night = hourly_table.orders(hourly_table.window(24))
    hourly_table.commit(
        window, [order | {"run_id": hourly_table.run_id(window)} for order in evening + night]
    )
    report = check_window(hourly_table.settings, window)
    assert (report.status, report.rows) == (PASS, 20)


def test_other_schema_fails_before_any_row_is_read(hourly_table):
    fields = {field.name: field.type for field in hourly_table.schema}
    del fields["cut_lsn"]
    others = {"order_id": pa.int32(), "pizzas": pa.list_(pa.string()), "tip": pa.int64()}
    window = hourly_table.window(11)
    hourly_table.commit(window, [], schema=pa.schema(fields | others))

    report = check_window(hourly_table.settings, window)

    assert [check.name for check in report.checks] == ["schema"]
    assert report.status is FAIL
    assert report.checks[0].observed == "all but 4 of 12 columns"
    assert report.checks[0].examples == ("order_id", "pizzas", "cut_lsn", "…")


def test_table_missing_is_said(hourly_table):
    with pytest.raises(LakehouseError, match=r"no Delta table at .*orders_enriched__batch"):
        check_window(hourly_table.settings, hourly_table.window(11))


def test_window_no_run_wrote_is_refused(hourly_table):
    hourly_table.commit(hourly_table.window(11), [])
    with pytest.raises(WindowNotWrittenError, match="no run replaced exactly the window"):
        check_window(hourly_table.settings, hourly_table.window(12))


def test_window_a_later_run_wrote_over_is_refused(hourly_table):
    hour, day = hourly_table.window(11), hourly_table.window(0, hours=24)
    hourly_table.commit(hour, [])
    hourly_table.commit(day, [])
    with pytest.raises(
        WindowNotWrittenError, match=r"last written by the run .* of \[2015-01-01T00"
    ):
        check_window(hourly_table.settings, hour)


def test_run_is_found_behind_many_other_commits(hourly_table):
    window = hourly_table.window(11)
    hourly_table.commit(window, hourly_table.orders(window))
    table = DeltaTable(hourly_table.uri)
    for _ in range(101):
        table.alter.set_table_properties({"delta.appendOnly": "false"})
    hourly_table.append([], metadata={"userMetadata": '{"run_id": "not a run of ours"}'})
    assert check_window(hourly_table.settings, window).status is PASS


def test_unusable_store_is_said_and_leaves_the_table_alone(hourly_table):
    window = hourly_table.window(11)
    hourly_table.commit(window, [])
    (hourly_table.settings.home / "quality").write_text("a file, not a folder")
    with pytest.raises(QualityStoreError, match="cannot write to"):
        check_window(hourly_table.settings, window)


def test_damaged_store_is_said(hourly_table):
    window = hourly_table.window(11)
    hourly_table.commit(window, [])
    check_window(hourly_table.settings, window)
    gx = hourly_table.settings.home / "quality" / "gx"
    (gx / "great_expectations.yml").write_text("config_version: [")
    with pytest.raises(QualityStoreError, match="move that folder away"):
        check_window(hourly_table.settings, window)
    shutil.rmtree(gx)
    assert check_window(hourly_table.settings, window).status is PASS
