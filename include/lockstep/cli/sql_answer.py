"""Writes a stream of Arrow record batches to standard output as a table, CSV or JSON.

CSV and JSON are for programs: nothing but the rows, streamed, so that memory does not grow with
the answer. The table is for people: nulls are shown as such, times in UTC with seconds, and rows
too wide for the terminal are stacked. Never reads tables, never plans a query.
"""

import csv
import itertools
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from lockstep.sources.delta import reason
from lockstep.sources.errors import QueryError

WIDTH_WITHOUT_TERMINAL = 100
"""Columns of a table that goes to a file or a task log."""
FOLDED_CELL_WIDTH = 24
"""A text cell may be folded to this width before rows are stacked instead: a name fits."""
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


# --- For programs ---------------------------------------------------------------------------
def write_csv(reader: pa.RecordBatchReader, limit: int | None) -> None:
    """A header, then the rows; null is an empty field, nested values are JSON.

    Raises QueryError when the engine fails while it computes the rows; so do the others.
    """
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(reader.schema.names)
    for row in itertools.islice(_rows(reader), limit):
        writer.writerow([_csv_value(value) for value in row])


def _csv_value(value: object) -> object:
    if isinstance(value, list | dict):
        return json.dumps(_json_value(value), ensure_ascii=False)
    return _instant(value) if isinstance(value, datetime) else value


def write_json(reader: pa.RecordBatchReader, limit: int | None) -> None:
    """One array of objects, an object to a line."""
    names = reader.schema.names
    before = "[\n"
    for row in itertools.islice(_rows(reader), limit):
        record = {name: _json_value(value) for name, value in zip(names, row, strict=True)}
        sys.stdout.write(before + json.dumps(record, ensure_ascii=False))
        before = ",\n"
    sys.stdout.write("[]\n" if before == "[\n" else "\n]\n")


def _json_value(value: object) -> object:
    """What json.dumps takes: decimals as numbers, times as ISO 8601 text, NaN as null."""
    match value:
        case None | bool() | int() | str():
            return value
        case float() | Decimal():
            return float(value) if math.isfinite(value) else None
        case dict():
            return {key: _json_value(item) for key, item in value.items()}
        case list() | tuple():
            return [_json_value(item) for item in value]
    return _instant(value).replace(" ", "T") if isinstance(value, datetime) else str(value)


# --- For people -----------------------------------------------------------------------------
def write_table(reader: pa.RecordBatchReader, limit: int, started: float) -> None:
    """The first `limit` rows; `started` (time.monotonic) is when the question was asked."""
    schema, rows = reader.schema, _rows(reader)
    shown = [[_cell(value) for value in row] for row in itertools.islice(rows, limit)]
    is_cut_off = next(rows, None) is not None
    console = _console()
    if _fits(schema.names, shown, console.width):
        console.print(_side_by_side(schema, shown))
    else:
        for number, row in enumerate(shown, start=1):
            console.print(Rule(f"row {number}", align="left", style="dim"))
            console.print(_stacked(schema.names, row))
    rows_text = "1 row" if len(shown) == 1 else f"{len(shown):,} rows"
    end = f"first {rows_text}, there are more: --limit N" if is_cut_off else rows_text
    console.print(f"{end} ({time.monotonic() - started:.2f} s)", style="dim", highlight=False)


def _console() -> Console:
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if has_width else WIDTH_WITHOUT_TERMINAL)


def _fits(names: list[str], rows: list[list[Text]], width: int) -> bool:
    """Whether the columns stand side by side, with long texts folded but nothing else."""
    needed = 0
    for place, name in enumerate(names):
        widest = max((_widest_line(row[place]) for row in rows), default=0)
        needed += max(len(name), min(widest, FOLDED_CELL_WIDTH)) + 2
    return needed <= width


def _widest_line(cell: Text) -> int:
    return max((line.cell_len for line in cell.split("\n")), default=0)


def _side_by_side(schema: pa.Schema, rows: list[list[Text]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for field in schema:
        is_number = pa.types.is_integer(field.type) or pa.types.is_decimal(field.type)
        is_number = is_number or pa.types.is_floating(field.type)
        table.add_column(
            Text(field.name), justify="right" if is_number else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*row)
    return table


def _stacked(names: list[str], row: list[Text]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, cell in zip(names, row, strict=True):
        table.add_row(Text(name), cell)
    return table


def _cell(value: object) -> Text:
    """One value for people; a list has a line for each of its items."""
    if value is None:
        return Text("null", style="dim italic")
    if isinstance(value, list):
        return Text("\n").join(map(_item, value)) if value else Text("[]")
    return _item(value)


def _item(value: object) -> Text:
    """A value without line breaks of its own; a struct's fields stand on one line."""
    if isinstance(value, dict):
        return Text("  ").join(map(_item, value.values()))
    if value is None:
        return Text("null", style="dim italic")
    if isinstance(value, datetime):
        return Text(_instant(value))
    if isinstance(value, list):
        return Text(json.dumps(_json_value(value), ensure_ascii=False))
    text = value.isoformat() if isinstance(value, date) else str(value)
    return Text(_CONTROL_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text))


def _instant(value: datetime) -> str:
    """2015-01-01 11:38:36Z; microseconds only where there are any."""
    return value.isoformat(sep=" ").replace("+00:00", "Z")


# --- Rows -----------------------------------------------------------------------------------
def _rows(reader: pa.RecordBatchReader) -> Iterator[tuple]:
    try:
        for record_batch in reader:
            columns = [_in_microseconds(column).to_pylist() for column in record_batch.columns]
            yield from zip(*columns, strict=True)
    except pa.ArrowException as error:
        raise QueryError(reason(error)) from error


def _in_microseconds(column: pa.Array) -> pa.Array:
    """Python's own datetime has no nanoseconds, and pandas is too slow to import for them."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column
