"""The expectations that checks.toml may name, and what their arguments may be.

They are classes of great_expectations.expectations about each value of a column, which reports can
name the rows of. Great Expectations is not imported. Pure.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lockstep.pipeline.errors import meant, shown

_RANGE = ("min_value", "max_value", "strict_min", "strict_max")
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "ExpectColumnValuesToNotBeNull": (),
    "ExpectColumnValuesToBeNull": (),
    "ExpectColumnValuesToBeUnique": (),
    "ExpectColumnValuesToBeBetween": _RANGE,
    "ExpectColumnValuesToBeInSet": ("value_set",),
    "ExpectColumnValuesToNotBeInSet": ("value_set",),
    "ExpectColumnValuesToMatchRegex": ("regex",),
    "ExpectColumnValuesToNotMatchRegex": ("regex",),
    "ExpectColumnValueLengthsToBeBetween": _RANGE,
    "ExpectColumnValueLengthsToEqual": ("value",),
}
"""By class, the arguments that it takes in addition to `mostly`."""
_MOSTLY = "mostly"
_NEEDED = ("value_set", "regex", "value")


def argument_findings(
    expectation: str, arguments: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is wrong with arguments, each with the path of its key below them."""
    known = [*ARGUMENTS[expectation], _MOSTLY]
    for name, value in arguments.items():
        if name not in known:
            yield (name,), f"is no argument of {expectation}: {meant(name, known)}"
            continue
        wanted, fits = _VALUES[name]
        if not fits(value):
            yield (name,), f"{shown(value)} is not {wanted}"
    for name in known:
        if name in _NEEDED and name not in arguments:
            yield (name,), f"is missing: {expectation} needs {_VALUES[name][0]}"
    if _RANGE[0] in known and arguments.keys().isdisjoint(_RANGE[:2]):
        yield (), f"has no bound: {expectation} needs min_value, max_value, or both"


def _is_share(value: object) -> bool:
    return type(value) in (int, Decimal) and 0 <= value <= 1


def _is_bound(value: object) -> bool:
    if isinstance(value, datetime):
        return value.tzinfo is not None
    return isinstance(value, int | Decimal | date) and not isinstance(value, bool)


def _is_regex(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(re.compile(value))
    except re.error:
        return False


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_value_set(value: object) -> bool:
    # Great Expectations makes text of dates, which equals no date of a column.
    return isinstance(value, list) and all(isinstance(one, str | int | Decimal) for one in value)


def _is_length(value: object) -> bool:
    return type(value) is int and value >= 0


_VALUES: dict[str, tuple[str, Callable[[object], bool]]] = {
    _MOSTLY: ("a share: write a number from 0 to 1", _is_share),
    "min_value": ("a bound: write a number, a date or a time with its zone", _is_bound),
    "max_value": ("a bound: write a number, a date or a time with its zone", _is_bound),
    "strict_min": ("a boolean: write true or false", _is_boolean),
    "strict_max": ("a boolean: write true or false", _is_boolean),
    "value_set": ("a list of strings, numbers or booleans", _is_value_set),
    "regex": ("a regular expression of Python, in quotes", _is_regex),
    "value": ("a length: write an integer, 0 or more", _is_length),
}
