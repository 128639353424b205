"""What an application published of a row of the result: a JSON object, decoded by result.lock.

Its field `op` is c, u or d. A delete has the key's columns, any other all columns of the result;
other fields pass. In JSON a date and a timestamp are text as ISO 8601 has it (a timestamp with its
offset from UTC), binary is base64, a decimal a number or text, a struct an object. Where the text
comes from, an outbox or a message, is never here.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
from msgspec import Meta, Struct
from msgspec.structs import astuple

from lockstep.pipeline.result import Result
from lockstep.pipeline.values import Convert, to_decimal, to_double, to_real

CREATED, UPDATED, DELETED = "c", "u", "d"


class PublishedRow(Struct, frozen=True, gc=False):
    """values: of the columns that are not in the key, in their order; None of a delete."""

    op: str
    key: tuple[Any, ...]
    values: tuple[Any, ...] | None


def published_decoder(result: Result) -> Callable[[str | bytes], PublishedRow]:
    """Decodes what was published of one pipeline's rows.

    Key and values come out as pa.array(…, type of the column) takes them. The decoder raises
    ValueError with the field when one is missing, is of another JSON type, or has a value that the
    column does not hold. The key's columns and the time are never null.
    """
    columns = (*result.key, *result.values)
    decode, op_of = _decoding(result, columns)
    key_length = len(result.key)
    converts = [_convert(result.schema.field(name).type) for name in columns]
    all_of = _of_struct(converts, columns)
    key_of = _of_struct(converts[:key_length], result.key)

    def published(text: str | bytes) -> PublishedRow:
        try:
            row = decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(str(error)) from error
        op = op_of[type(row)]
        if op == DELETED:
            return PublishedRow(op, key_of(row), None)
        values = all_of(row)
        return PublishedRow(op, values[:key_length], values[key_length:])

    return published


@cache
def value_decoder(type_: pa.DataType) -> Callable[[str | bytes], Any]:
    """Decodes a value of a column's type, or null, out of its JSON; as `published_decoder` does."""
    decode, convert = msgspec.json.Decoder(_decoded(type_) | None).decode, _convert(type_)
    return lambda text: _one(convert, decode(text))


def _decoding(
    result: Result, columns: tuple[str, ...]
) -> tuple[Callable[[str | bytes], Struct], dict[type[Struct], str]]:
    """What decodes the JSON, one struct for each op, and which op a struct stands for."""
    never_null = {*result.key, result.time}
    fields = []
    for name in columns:
        decoded = _decoded(result.schema.field(name).type)
        fields.append((name, decoded if name in never_null else decoded | None))
    structs = {_struct(fields, op): op for op in (CREATED, UPDATED)}
    structs[_struct(fields[: len(result.key)], DELETED)] = DELETED
    return msgspec.json.Decoder(reduce(or_, structs)).decode, structs


def _struct(fields: list[tuple[str, Any]], op: str | None = None) -> type[Struct]:
    """Fields by position (c0, c1, …): a column's name may be no name in Python."""
    renamed = {f"c{at}": name for at, (name, _) in enumerate(fields)}
    typed = [(f"c{at}", type_) for at, (_, type_) in enumerate(fields)]
    tag_field = None if op is None else "op"
    return msgspec.defstruct(
        "Published", typed, rename=renamed, tag=op, tag_field=tag_field, gc=False
    )


def _integer(bits: int) -> Any:
    return Annotated[int, Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]


_SCALARS: dict[pa.DataType, Any] = {
    pa.int8(): _integer(8),
    pa.int16(): _integer(16),
    pa.int32(): _integer(32),
    pa.int64(): _integer(64),
    **dict.fromkeys((pa.float32(), pa.float64()), float | Literal["NaN", "Infinity", "-Infinity"]),
    pa.bool_(): bool,
    pa.string(): str,
    pa.binary(): bytes,
    pa.date32(): date,
    pa.timestamp("us", "UTC"): Annotated[datetime, Meta(tz=True)],
}


def _decoded(type_: pa.DataType) -> Any:
    """What msgspec decodes a value of a column's type as; nulls within it are allowed."""
    if pa.types.is_decimal(type_):
        return Decimal
    if pa.types.is_list(type_):
        return list[_decoded(type_.value_type) | None]
    if pa.types.is_map(type_):
        return dict[_decoded(type_.key_type), _decoded(type_.item_type) | None]
    if pa.types.is_struct(type_):
        return _struct([(one.name, _decoded(one.type) | None) for one in type_])
    return _SCALARS[type_]


_NUMBERS: dict[pa.DataType, Convert] = {pa.float32(): to_real, pa.float64(): to_double}


def _convert(type_: pa.DataType) -> Convert | None:
    """From what was decoded to what Arrow takes; None where that is the same."""
    if pa.types.is_decimal(type_):
        return to_decimal(type_.precision, type_.scale)
    if pa.types.is_list(type_):
        return _of_list(_convert(type_.value_type))
    if pa.types.is_map(type_):
        return _of_map(_convert(type_.key_type), _convert(type_.item_type))
    if pa.types.is_struct(type_):
        names = [one.name for one in type_]
        return _of_struct([_convert(one.type) for one in type_], names)
    return _NUMBERS.get(type_)


def _of_list(element: Convert | None) -> Convert | None:
    if element is None:
        return None
    return lambda items: [None if item is None else element(item) for item in items]


def _of_map(key: Convert | None, value: Convert | None) -> Convert:
    """Pairs, as Arrow takes a map."""

    def pairs(found: dict) -> list[tuple]:
        return [(_one(key, name), _one(value, item)) for name, item in found.items()]

    return pairs


def _of_struct(fields: Sequence[Convert | None], names: Sequence[str]) -> Convert:
    """A tuple, as Arrow takes a struct whose fields it knows."""
    converted = [
        (at, name, convert)
        for at, (name, convert) in enumerate(zip(names, fields, strict=True))
        if convert
    ]

    def values(found: Struct) -> tuple:
        given = list(astuple(found))
        for at, name, convert in converted:
            if (value := given[at]) is not None:
                try:
                    given[at] = convert(value)
                except ValueError as error:
                    raise ValueError(f"field `{name}`: {error}") from error
        return tuple(given)

    return values if converted else astuple


def _one(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)
