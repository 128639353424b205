"""Values of TOML as values of a table's column, and compared with values of the result. Pure.

Floats of the text are Decimal (toml_file.read_toml).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from lockstep.pipeline.pg_types import PgType
from lockstep.pipeline.type_table import ValueType, scalar_type
from lockstep.pipeline.values import to_instant, to_real

_LOCAL_EPOCH = datetime(1970, 1, 1)


def column_value(value: Any, pg: PgType, type_: ValueType) -> Any:
    """The value that the decoders give for what the text says; never null.

    pg: the column's type, as type_ has it. Raises ValueError with what is wrong.
    """
    try:
        if not pg.is_array:
            return _scalar(value, type_)
        text = pg.text.removesuffix("[]")
        element = scalar_type(replace(pg, text=text, is_array=False), type_.time_zone)
        return [_scalar(one, element) for one in _of(list, value)]
    except (ArithmeticError, msgspec.ValidationError) as error:
        raise ValueError(str(error)) from None


def is_as_expected(expected: Any, found: Any) -> bool:
    """Whether a value of the result is what the text says: numbers by value (a real by the
    nearest of 32 bits), times by instant.

    expected: None for null. Of a struct the named fields are compared.
    """
    if isinstance(expected, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and is_as_expected(value, found[name]) for name, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(expected) == len(found)
            and all(map(is_as_expected, expected, found))
        )
    if isinstance(found, float) and found != found:  # noqa: PLR0124 - NaN alone is not itself
        return isinstance(expected, Decimal) and expected.is_nan()
    if isinstance(found, bytes):
        return isinstance(expected, str) and expected.lower() == found.hex()
    is_bool = isinstance(expected, bool) == isinstance(found, bool)
    return is_bool and _as_number(expected, found) == found


def _as_number(expected: Any, found: Any) -> Any:
    """A number of the kind of `found`; others as they are."""
    if isinstance(found, Decimal) and isinstance(expected, str):
        try:
            return Decimal(expected)
        except InvalidOperation:
            return expected
    if isinstance(found, float) and isinstance(expected, Decimal):
        number = float(expected)
        return found if found in (number, to_real(number)) else number
    return expected


def _scalar(value: Any, type_: ValueType) -> Any:
    return _BY_KIND[type_.delta.partition("(")[0]](value, type_)


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"write {_WRITTEN[kind]}")
    return value


def _boolean(value: Any, _type: ValueType) -> bool:
    return _of(bool, value)


def _integer(value: Any, type_: ValueType) -> int:
    return msgspec.convert(_of(int, value), type_.decoded)


def _float(value: Any, type_: ValueType) -> float:
    if type(value) not in (int, Decimal):
        raise ValueError("write a number")
    return type_.convert(float(value))


def _decimal(value: Any, type_: ValueType) -> Decimal:
    if type(value) not in (int, Decimal, str):
        raise ValueError("write a number, or a text of one")
    return type_.convert(str(value))


def _binary(value: Any, _type: ValueType) -> bytes:
    return bytes.fromhex(_of(str, value))


def _date(value: Any, _type: ValueType) -> date:
    return _of(date, value)


def _timestamp(value: Any, type_: ValueType) -> datetime:
    time = _of(datetime, value)
    if type_.time_zone is None:
        if time.tzinfo is None:
            raise ValueError("write its offset, such as 2026-11-26T12:00:00Z")
        return time.astimezone(UTC)
    if time.tzinfo is not None:
        raise ValueError(f"it is local time of {type_.time_zone}: leave out the offset")
    return to_instant(1, ZoneInfo(type_.time_zone))((time - _LOCAL_EPOCH) // _MICROSECOND)


def _string(value: Any, type_: ValueType) -> str:
    text = _of(str, value)
    if type_.pg == "uuid":
        return str(UUID(text))
    if type_.pg.startswith("character("):
        return text.ljust(int(type_.pg.removeprefix("character(").removesuffix(")")))
    if type_.convert is not None:  # a time, which is read from a number
        return text
    return msgspec.convert(text, type_.decoded)


_MICROSECOND = timedelta(microseconds=1)
_WRITTEN = {
    bool: "true or false",
    int: "an integer",
    str: "a text",
    list: "a list",
    date: "a date, such as 2026-11-26",
    datetime: "a date and time, such as 2026-11-26T12:00:00Z",
}
_BY_KIND: Mapping[str, Callable[[Any, ValueType], Any]] = {
    "boolean": _boolean,
    **dict.fromkeys(("smallint", "int", "bigint"), _integer),
    **dict.fromkeys(("float", "double"), _float),
    "decimal": _decimal,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
    "string": _string,
}
"""By the Delta type, without precision and scale."""
