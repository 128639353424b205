"""What every pipeline's hourly table is checked for, and the author's own checks after that.

This is the page to read and to change. FAIL keeps the window from those who wait for it, WARN is
reported and lets it pass. Nothing here imports Great Expectations: gx_store turns each
declaration into the expectation it names. Names like $rows_at_cut are facts of the run under
check (check.py gives them their values). The author's are in the pipeline's checks.toml.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from lockstep.model.verdict import CheckStatus
from lockstep.pipeline.checks import AuthorCheck
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.result import Result
from lockstep.quality.row_sql import IS_IN_ITS_PARTITION, RUN

FAIL = CheckStatus.FAIL


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

UNIQUE = "ExpectColumnValuesToBeUnique"
ALL_UNIQUE = "ExpectCompoundColumnsToBeUnique"

# Of a table itself: a frame with the columns column, found, declared, one row for each column.
COLUMN_CHECKS = (
    Check(
        "schema",
        FAIL,
        "ExpectColumnPairValuesToBeEqual",
        {"column_A": "found", "column_B": "declared", "ignore_row_if": "neither"},
        "columns and types as in result.lock, and Lockstep's own",
    ),
)


def row_checks(plan: Plan) -> tuple[Check, ...]:
    """Of the rows: the frame of row_sql.rows_sql, one row for each row of the window.

    Raises ManifestError when the author's checks do not fit the result.
    """
    result, checks = plan.result, plan.checks
    structural = (
        Check(
            "no order lost",
            FAIL,
            "ExpectTableRowCountToEqual",
            {"value": fact("rows_at_cut")},
            "{rows_at_cut:,} {noun}, as counted at the cut",
        ),
        *present(result.key),
        _key_unique(result.key),
        *_of_time(result),
        Check(
            "one run wrote it",
            FAIL,
            IN_SET,
            {"column": RUN, "value_set": fact("run_ids")},
            "{written_by}",
        ),
    )
    if plan.checks_file:
        plan.checks_file.require_other_names([check.name for check in structural])
    return (*structural, *map(_of_author, checks.check))


def present(columns: tuple[str, ...]) -> Iterator[Check]:
    """Each of these columns has a value in every row."""
    for name in columns:
        yield Check(f"{name} present", FAIL, ABSENT, {"column": name}, "no nulls")


def _key_unique(key: tuple[str, ...]) -> Check:
    name = f"{', '.join(key)} unique"
    if len(key) == 1:
        return Check(name, FAIL, UNIQUE, {"column": key[0]}, "no repeats")
    arguments = {"column_list": list(key), "ignore_row_if": "any_value_is_missing"}
    return Check(name, FAIL, ALL_UNIQUE, arguments, "no repeats")


def _of_time(result: Result) -> Iterator[Check]:
    """Nothing of a result without a time: it is in no window."""
    time = result.time
    if time is None:
        return
    if time not in result.key:
        yield from present((time,))
    bounds = {
        "min_value": fact("window_start"),
        "max_value": fact("window_end"),
        "strict_max": True,
    }
    yield Check(f"{time} in window", FAIL, BETWEEN, {"column": time, **bounds}, "{window}")
    yield Check(
        "partition is its hour",
        FAIL,
        IN_SET,
        {"column": IS_IN_ITS_PARTITION, "value_set": [True]},
        f"the UTC date of {plain(time)}",
    )


def plain(text: str) -> str:
    """A text in `expected` that is no name of a fact, whatever it has in braces."""
    return text.replace("{", "{{").replace("}", "}}")


def _of_author(check: AuthorCheck) -> Check:
    return Check(
        check.name,
        CheckStatus(check.severity),
        check.expectation,
        {"column": check.column, **_numbers(check.arguments)},
        plain(check.expected),
    )


def _numbers(value: Any) -> Any:
    """TOML's values as Great Expectations compares and stores them: decimals are floats."""
    if isinstance(value, Mapping):
        return {name: _numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    return float(value) if isinstance(value, Decimal) else value
