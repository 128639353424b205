"""From what Debezium sends to the values of a Delta table: one small pure function for each type.

Each takes a decoded value that is not null, returns what reading it back from Delta by Arrow gives,
and raises ValueError for a value that Delta cannot hold or Debezium does not send exactly. Which
type has which function is never here: that is types.py. Where Debezium 3.6.3 is mentioned, the
behaviour was observed: tests/pipeline/test_types_through_debezium.py holds the evidence.
"""

import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
FIRST_DAY, LAST_DAY = 1 - EPOCH_ORDINAL, date.max.toordinal() - EPOCH_ORDINAL
"""0001-01-01 and 9999-12-31 as days since the epoch: what Spark's dates and timestamps hold."""
DAY_US = 86_400_000_000
FIRST_US, LAST_US = FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1
ARRAY_FIRST_DAY = date(1582, 10, 25)
"""Arrays pass through JDBC's calendar, which changes from Julian to Gregorian in October 1582:
earlier days arrive as others, also those of 5 to 14 October, which come ten days later."""
SHOWN_CHARACTERS_MAX = 60
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=UTC)
_FLOAT32 = struct.Struct("<f")
_JAVA_ARRAY = re.compile(r"\[+(L[\w.$]+;|[A-Z])@[0-9a-f]+")
"""The text of a Java array: what Debezium sends for an inner array of text."""

Convert = Callable[[Any], Any]


def shown(value: object) -> str:
    """A value in an error, bounded in length."""
    text = value if isinstance(value, str) else repr(value)
    cut = "" if len(text) <= SHOWN_CHARACTERS_MAX else f"… ({len(text)} characters)"
    return f"{text[:SHOWN_CHARACTERS_MAX]!r}{cut}"


def to_decimal(precision: int, scale: int) -> Convert:
    """From a Decimal, or its text (decimal.handling.mode=string), to one of exactly this scale."""
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    unit = Decimal(1).scaleb(-scale)

    def convert(number: str | Decimal) -> Decimal:
        try:
            value = context.quantize(Decimal(number), unit)
        except (Inexact, InvalidOperation):
            raise ValueError(f"{shown(str(number))} is no numeric({precision},{scale})") from None
        if not value.is_finite():
            raise ValueError(f"{shown(str(number))} is no number that Delta holds")
        return value

    return convert


def to_double(value: float | str) -> float:
    """NaN and the infinities are JSON strings."""
    return float(value)


def to_real(value: float | str) -> float:
    """The number of 32 bits that PostgreSQL's text stands for; Arrow gives this one back."""
    try:
        return _FLOAT32.unpack(_FLOAT32.pack(float(value)))[0]
    except OverflowError:
        raise ValueError(f"{shown(value)} is no real") from None


def to_date(days: int) -> date:
    """From days since the epoch."""
    return date.fromordinal(days + EPOCH_ORDINAL)


def to_time(unit_us: int) -> Convert:
    """From a count of unit_us microseconds since midnight to the text that PostgreSQL writes."""

    def convert(units: int) -> str:
        seconds, microseconds = divmod(units * unit_us, 1_000_000)
        minutes, second = divmod(seconds, 60)
        text = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"
        return f"{text}.{microseconds:06}".rstrip("0") if microseconds else text

    return convert


def to_instant(unit_us: int, zone: ZoneInfo) -> Convert:
    """From a local time, as unit_us microseconds since its 1970, to an instant in UTC.

    Raises ValueError for a local time that the zone's clocks skip or show twice.
    """

    def convert(units: int) -> datetime:
        local = _EPOCH + timedelta(0, 0, units * unit_us)
        early, late = zone.utcoffset(local), zone.utcoffset(local.replace(fold=1))
        if early != late:
            how = "does not exist" if late > early else "is there twice"
            raise ValueError(f"the local time {local} {how} in {zone.key}")
        try:
            return (local - early).replace(tzinfo=UTC)
        except OverflowError:
            raise ValueError(f"the local time {local} in {zone.key} is out of range") from None

    def convert_utc(units: int) -> datetime:
        return _EPOCH_UTC + timedelta(0, 0, units * unit_us)

    return convert_utc if zone.key == "UTC" else convert


def to_array(element: Convert | None) -> Convert:
    """Convert each element that is not null.

    An array of nulls alone is refused: Debezium 3.6.3 sends it, too, for nested arrays of anything
    but text, with the length of the outer one.
    """

    def convert(items: list) -> list:
        if items and items.count(None) == len(items):
            raise ValueError(
                f"an array of {len(items)} nulls and nothing else: Debezium sends the same for a "
                "nested array, which Lockstep does not read"
            )
        if element is None:
            return items
        return [None if item is None else element(item) for item in items]

    return convert


def not_nested(text: str) -> str:
    """An element of an array of text. Debezium sends an inner array as the text of a Java object.

    Raises ValueError for such a text, which PostgreSQL may hold as well.
    """
    if text[:1] == "[" and _JAVA_ARRAY.fullmatch(text):
        raise ValueError(
            f"the element {shown(text)} is what Debezium sends for a nested array, which Lockstep "
            "does not read"
        )
    return text


def from_array_first_day(element: Convert | None) -> Convert:
    """Convert a date or instant in an array. Raises ValueError before ARRAY_FIRST_DAY."""

    def convert(item: Any) -> date:
        value = item if element is None else element(item)
        day = value.date() if isinstance(value, datetime) else value
        if day < ARRAY_FIRST_DAY:
            raise ValueError(
                f"{value} in an array: Debezium does not send days before {ARRAY_FIRST_DAY} "
                "exactly in arrays"
            )
        return value

    return convert


def comparable(value: Any) -> Any:
    """The value as one that == and hash compare as Spark does: NaN equals NaN, lists by element."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN alone is not itself
        return "NaN"
    if isinstance(value, list | tuple):
        return tuple(map(comparable, value))
    if isinstance(value, dict):
        return tuple((name, comparable(one)) for name, one in value.items())
    return value
