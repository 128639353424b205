"""The declaration: what is expected of a window of the hourly table, and what follows if not.

This is the page to read and to change. FAIL keeps the window from those who wait for it, WARN is
reported and lets it pass. Nothing here imports Great Expectations: gx_store turns each
declaration into the expectation it names. Names like $orders_at_cut are facts of the run under
check (check.py gives them their values).
"""

from dataclasses import dataclass, field
from typing import Any

from lockstep.model.verdict import CheckStatus

FAIL, WARN = CheckStatus.FAIL, CheckStatus.WARN

UNKNOWN_SHARE_MAX = 0.2
"""A slip of the pen leaves a few orders without a name; a broken join leaves nearly all."""

PIZZA_PRICE_MAX = 1_000
"""The real menu ends at 35.95: a price thirty times that is a missing decimal point."""


@dataclass(frozen=True)
class Check:
    """One expectation: a class of great_expectations.expectations and its arguments."""

    name: str
    severity: CheckStatus
    expectation: str
    arguments: dict[str, Any] = field(default_factory=dict)
    expected: str = ""
    """For people: what is expected; {names} are facts of the run."""


@dataclass(frozen=True)
class Suite:
    """Declared checks under one name; `noun` is what a row of its frame is."""

    name: str
    checks: tuple[Check, ...]
    noun: str


def fact(name: str) -> dict[str, str]:
    """An argument whose value only the run under check knows."""
    return {"$PARAMETER": name}


ABSENT = "ExpectColumnValuesToNotBeNull"
BETWEEN = "ExpectColumnValuesToBeBetween"
IN_SET = "ExpectColumnValuesToBeInSet"

# Of a table itself: a frame with the columns column, found, declared, one row for each column.
COLUMN_CHECKS = (
    Check(
        "schema",
        FAIL,
        "ExpectColumnPairValuesToBeEqual",
        {"column_A": "found", "column_B": "declared", "ignore_row_if": "neither"},
        "columns and types as in pizzeria.py",
    ),
)

# Of the rows: the frame of orders_enriched_quality.sql, one row for each order.
_KNOWN_TO_MOST = 1 - UNKNOWN_SHARE_MAX
_MOST = f"unknown in at most {UNKNOWN_SHARE_MAX:.0%} of the orders"

ROW_CHECKS = (
    Check(
        "no order lost",
        FAIL,
        "ExpectTableRowCountToEqual",
        {"value": fact("orders_at_cut")},
        "{orders_at_cut:,} orders, as counted at the cut",
    ),
    Check("order_id present", FAIL, ABSENT, {"column": "order_id"}, "no nulls"),
    Check(
        "order_id unique",
        FAIL,
        "ExpectColumnValuesToBeUnique",
        {"column": "order_id"},
        "no repeats",
    ),
    Check("order_time present", FAIL, ABSENT, {"column": "order_time"}, "no nulls"),
    Check(
        "order_time in window",
        FAIL,
        BETWEEN,
        {
            "column": "order_time",
            "min_value": fact("window_start"),
            "max_value": fact("window_end"),
            "strict_max": True,
        },
        "{window}",
    ),
    Check(
        "partition is its hour",
        FAIL,
        IN_SET,
        {"column": "is_in_its_partition", "value_set": [True]},
        "the UTC date and hour of order_time",
    ),
    Check(
        "one run wrote it",
        FAIL,
        IN_SET,
        {"column": "run_id", "value_set": fact("run_ids")},
        "{written_by}",
    ),
    Check(
        "prices present",
        FAIL,
        BETWEEN,
        {"column": "missing_prices", "max_value": 0},
        "a price for every known pizza",
    ),
    Check(
        "prices not negative",
        FAIL,
        BETWEEN,
        {"column": "lowest_price", "min_value": 0},
        "0 or more",
    ),
    Check(
        "prices plausible",
        WARN,
        BETWEEN,
        {"column": "highest_price", "max_value": PIZZA_PRICE_MAX},
        f"at most {PIZZA_PRICE_MAX:,} a pizza",
    ),
    Check(
        "orders have pizzas",
        WARN,
        BETWEEN,
        {"column": "pizza_count", "min_value": 1},
        "at least one pizza each",
    ),
    Check("client known", WARN, ABSENT, {"column": "client_name"}, "known in every order"),
    Check(
        "client mostly known",
        FAIL,
        ABSENT,
        {"column": "client_name", "mostly": _KNOWN_TO_MOST},
        _MOST,
    ),
    Check("table known", WARN, ABSENT, {"column": "table_name"}, "known in every order"),
    Check(
        "table mostly known",
        FAIL,
        ABSENT,
        {"column": "table_name", "mostly": _KNOWN_TO_MOST},
        _MOST,
    ),
    Check(
        "pizzas known",
        WARN,
        BETWEEN,
        {"column": "unknown_pizzas", "max_value": 0},
        "known in every order",
    ),
    Check(
        "pizzas mostly known",
        FAIL,
        BETWEEN,
        {"column": "unknown_pizzas", "max_value": 0, "mostly": _KNOWN_TO_MOST},
        _MOST,
    ),
)
