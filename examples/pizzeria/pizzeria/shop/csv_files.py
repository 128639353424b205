"""Reads CSV files of known columns, strictly, so that every complaint names a file and a line.

What the columns mean is the caller's affair (pizza_place.py); nothing here touches a database.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pizzeria.errors import InputDataError

Value = TypeVar("Value")


@dataclass(frozen=True)
class Row:
    """One line of a CSV file: its fields by column, stripped, and where it stands."""

    path: Path
    line: int
    fields: dict[str, str]

    def error(self, problem: str) -> InputDataError:
        """An InputDataError about this line; `problem` says what is wrong and what to do."""
        return InputDataError(f"{self.path}, line {self.line}: {problem}")

    def text(self, column: str) -> str:
        """The field, which must not be empty."""
        if not self.fields[column]:
            raise self.error(f"{column} is empty; give it a value")
        return self.fields[column]

    def parsed(self, column: str, parse: Callable[[str], Value], wanted: str) -> Value:
        """The field as `parse` reads it; ValueError or ArithmeticError becomes a clear error."""
        text = self.text(column)
        try:
            return parse(text)
        except (ValueError, ArithmeticError):
            raise self.error(f"{column} is {text!r}; write {wanted}") from None


def read_rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """Yield the rows of a CSV file that has (at least) these columns, in any order.

    Raises InputDataError when the file is missing, empty, unreadable as text or CSV, lacks a
    column, or a line has more or fewer fields than the header.
    """
    lines = _decoded(path).splitlines(keepends=True)
    reader = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(path, header, columns)
        for values in reader:
            if values:
                yield _row(path, reader.line_num, header, values)
    except csv.Error as error:
        raise InputDataError(
            f"{path}, line {reader.line_num}: not CSV ({error}); check its quotes"
        ) from error


def _decoded(path: Path) -> str:
    """The file's text: UTF-8, else Windows-1252, in which this data set is also handed around."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputDataError(
            f"{path} cannot be read ({error.strerror}); the folder needs this file"
        ) from error
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise InputDataError(f"{path} is neither UTF-8 nor Windows-1252 text; save it as UTF-8")


def _check_header(path: Path, header: list[str], columns: tuple[str, ...]) -> None:
    missing = [column for column in columns if column not in header]
    if missing:
        raise InputDataError(
            f"{path}, line 1: no column {', '.join(missing)} in the header "
            f"({', '.join(header) or 'the file is empty'}); it needs {', '.join(columns)}"
        )


def _row(path: Path, line: int, header: list[str], values: list[str]) -> Row:
    if len(values) != len(header):
        raise InputDataError(
            f"{path}, line {line}: {len(values)} fields where the header has {len(header)}; "
            "correct the line (a comma inside a value needs quotes around it)"
        )
    return Row(path, line, dict(zip(header, map(str.strip, values), strict=True)))
