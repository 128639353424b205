"""Rows of one table as Debezium sends them, decoded against the table's types.

The decoder is made from the catalog by msgspec.defstruct and reads only the columns that are asked
for. What surrounds a row in a change event is never here, nor what a row is good for.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple

from lockstep.pipeline.catalog import Table, TableName
from lockstep.pipeline.type_table import ValueType
from lockstep.pipeline.values import shown


class Unchanged(Enum):
    """The one marker of a large value that an update left as it was, and that was not sent."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
"""Never a value: it is filled from the row's state before."""


class UnreadableColumnError(ValueError):
    """A row lacks a column, or has a value there that is none of its type."""

    def __init__(self, table: TableName, column: str, why: str) -> None:
        super().__init__(f"table {table}, column {column}: {why}")
        self.table, self.column = table, column


class RowDecoder:
    """Decodes rows of one table, from the `before` or `after` of a change event.

    columns: the names read, in the order asked for. row_type: the struct of a row, with one field
    for each column by its position (c0, c1, …), since a column's name may be no name in Python;
    msgspec.structs.astuple gives the values in order.
    """

    decode: Callable[[bytes | Raw], Struct]
    """The values of the columns in their order, as `ValueType.value` gives them.

    A large value that the update left as it was is UNCHANGED. Columns that were not asked for pass.
    Of a DELETE only the key is what it was, unless the table's REPLICA IDENTITY is FULL: Debezium
    fills the other columns with null, or with "", 0 and [] where they are NOT NULL. Raises
    UnreadableColumnError when one is missing, is of another JSON type, or has a value that Delta
    cannot hold; ValueError for what is no row.
    """

    def __init__(
        self, table: Table, columns: Collection[str], types: Mapping[str, ValueType]
    ) -> None:
        """types: of these columns at least. Raises CatalogError for a column the table lacks."""
        self.columns = tuple(table.column(name).name for name in columns)
        self._names = [msgspec.json.encode(name) + b":" for name in self.columns]
        self._table = table.name
        self._types = [types[name] for name in self.columns]
        fields = [f"c{position}" for position in range(len(self.columns))]
        renamed = dict(zip(fields, self.columns, strict=True))
        decoded = [(field, one.decoded) for field, one in zip(fields, self._types, strict=True)]
        self.row_type = msgspec.defstruct("Row", decoded, rename=renamed, gc=False)
        raw_type = msgspec.defstruct("RawRow", [(field, Raw) for field in fields], rename=renamed)
        self._decode_raw = msgspec.json.Decoder(raw_type).decode
        self.decode = self._decoding(list(zip(fields, self._types, strict=True)))

    def texts(self, raw: bytes | Raw) -> tuple[bytes, ...]:
        """The JSON of each column's value as it was sent. Raises ValueError as `decode` does."""
        try:
            return tuple(map(bytes, astuple(self._decode_raw(raw))))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._not_decoded(raw, error) from error

    def object_text(self, texts: Sequence[bytes]) -> str:
        """A JSON object that `decode` reads, of the columns' values in their order."""
        pairs = [name + text for name, text in zip(self._names, texts, strict=True)]
        return (b"{%b}" % b",".join(pairs)).decode()

    def _decoding(self, typed: list[tuple[str, ValueType]]) -> Callable[[bytes | Raw], Struct]:
        """Closures, and no loop where nothing is converted: both cost a small row a third."""
        decode_row = msgspec.json.Decoder(self.row_type).decode
        large = [
            (field, one.placeholder) for field, one in typed if one.placeholder and not one.convert
        ]
        converted = [(f, one.placeholder, one.convert) for f, one in typed if one.convert]

        def decode(raw: bytes | Raw) -> Struct:
            try:
                return decode_row(raw)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise self._not_decoded(raw, error) from error

        def decode_and_convert(raw: bytes | Raw) -> Struct:
            row = decode(raw)
            for field, placeholder in large:
                if getattr(row, field) == placeholder:
                    setattr(row, field, UNCHANGED)
            for field, placeholder, convert in converted:
                if (value := getattr(row, field)) is None:
                    continue
                try:
                    setattr(row, field, UNCHANGED if value == placeholder else convert(value))
                except ValueError as error:
                    raise self._unreadable(field, str(error)) from error
            return row

        return decode_and_convert if large or converted else decode

    def _not_decoded(self, raw: bytes | Raw, error: Exception) -> ValueError:
        """Which column does not decode, with its value: the first that does not."""
        try:
            found = self._decode_raw(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as general:
            return self._missing(raw, general)
        for field, type_ in zip(found.__struct_fields__, self._types, strict=True):
            value = getattr(found, field)
            try:
                msgspec.json.decode(value, type=type_.decoded)
            except (msgspec.DecodeError, UnicodeDecodeError) as why:
                text = shown(bytes(value).decode(errors="replace"))
                return self._unreadable(field, f"{text} is no {type_.pg}: {why}")
        return ValueError(f"table {self._table}: {error}")

    def _missing(self, raw: bytes | Raw, general: Exception) -> ValueError:
        """The column that a row lacks, if it is a row."""
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            names = msgspec.json.decode(raw, type=dict[str, Raw])
            if lacking := [name for name in self.columns if name not in names]:
                return UnreadableColumnError(self._table, lacking[0], str(general))
        return ValueError(f"table {self._table}: {general}")

    def _unreadable(self, field: str, why: str) -> UnreadableColumnError:
        return UnreadableColumnError(self._table, self.columns[int(field[1:])], why)
