"""Times of a view's query in Spark's SQL: EXTRACT, differences of times, literal intervals."""

import re
from collections.abc import Iterator

from sqlglot import exp, parse_one

from lockstep.pipeline.view_types import DATE, INSTANT, ViewTypes

_FIELDS = ("year", "quarter", "month", "week", "day", "doy", "hour", "minute", "second")
"""Of EXTRACT: the same in both."""
_RENAMED = {"isodow": "DAYOFWEEK_ISO", "isoyear": "YEAROFWEEK"}
_EPOCH = (
    "Spark's EXTRACT has no EPOCH; of two instants write CAST((UNIX_MICROS(a) - UNIX_MICROS(b)) * "
    "0.000001 AS DECIMAL(19, 6))"
)
_INTERVAL = re.compile(
    r"(?:(?P<years>-?\d+) years? ?)?(?:(?P<months>-?\d+) mons? ?)?(?:(?P<days>-?\d+) days? ?)?"
    r"(?P<time>(?P<sign>-?)(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?))?"
)
"""As PostgreSQL writes intervals (intervalstyle postgres), such as `1 mon` or `2 days 03:00:00`."""

Marked = tuple[exp.Expr, str]


def times_to_spark(tree: exp.Expr, types: ViewTypes) -> Iterator[Marked]:
    """Change what Spark writes otherwise; yields what cannot be written, and why."""
    for node in list(tree.find_all(exp.Extract)):
        yield from _extract(node, types)
    for node in list(tree.find_all(exp.Sub)):
        if types.of(node.this) == types.of(node.expression) == DATE:
            days = exp.Anonymous(this="DATEDIFF", expressions=[node.this, node.expression])
            node.replace(days)  # of dates PostgreSQL gives a number of days
    for node in list(tree.find_all(exp.Cast)):
        is_literal = node.to.is_type(exp.DType.INTERVAL) and isinstance(node.this, exp.Literal)
        if is_literal and (interval := _interval(node.this.name)) is not None:
            node.replace(interval)


def _extract(node: exp.Extract, types: ViewTypes) -> Iterator[Marked]:
    field, value = node.name.lower(), node.expression
    if field in _RENAMED:
        node.set("this", exp.var(_RENAMED[field]))
    elif field == "dow":
        first = exp.Anonymous(this="DAYOFWEEK", expressions=[value])  # Sunday is 1, and 0 there
        node.replace(exp.paren(exp.Sub(this=first, expression=exp.Literal.number(1))))
    elif field == "epoch" and (micros := _micros(value, types)) is not None:
        seconds = exp.Mul(this=micros, expression=exp.Literal.number("0.000001"))
        node.replace(exp.cast(seconds, "DECIMAL(19, 6)"))
    elif field == "epoch":
        yield node, _EPOCH
    elif field not in _FIELDS:
        yield node, f"Spark's EXTRACT has no {field.upper()}"


def _micros(value: exp.Expr, types: ViewTypes) -> exp.Expr | None:
    """The microseconds of an instant, or between two; exact. None of other values.

    A difference of local times is none of their instants, where a clock is changed between them.
    """
    value = value.unnest()
    if types.of(value) == INSTANT:
        return _unix_micros(value)
    if isinstance(value, exp.Sub) and types.of(value.this) == types.of(value.expression) == INSTANT:
        sides = _unix_micros(value.this), _unix_micros(value.expression)
        return exp.paren(exp.Sub(this=sides[0], expression=sides[1]))
    return None


def _unix_micros(value: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="UNIX_MICROS", expressions=[value.unnest().copy()])


def _interval(text: str) -> exp.Expr | None:
    """A literal interval: Spark has those of months, and those of days and less."""
    found = _INTERVAL.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    if found["years"] or found["months"]:
        if found["days"] or found["time"]:
            return None
        months = 12 * int(found["years"] or 0) + int(found["months"] or 0)
        return parse_one(f"INTERVAL '{months}' MONTH", read="spark")
    if not found["time"]:
        return parse_one(f"INTERVAL '{found['days']}' DAY", read="spark")
    return _interval_of_time(found)


def _interval_of_time(found: re.Match) -> exp.Expr | None:
    """Spark has one sign for days and time: days are hours, for time is UTC."""
    sign = -1 if found["sign"] else 1
    hours = int(found["days"] or 0) * 24
    if hours and (hours < 0) != (sign < 0):
        return None
    hours, minus = abs(hours) + int(found["hours"]), "-" if sign < 0 else ""
    days, hours = divmod(hours, 24)
    text = f"{minus}{days} {hours:02}:{found['minutes']}:{found['seconds']}"
    return parse_one(f"INTERVAL '{text}' DAY TO SECOND", read="spark")
