"""A pipeline's own tests: whole transactions, and the rows that the result has after each.

A file is include/sql/NAME/tests/*.toml. Values are TOML's: a number, a text, a date or time; of a
decimal a number or a text; of bytea a text of hexadecimal digits. TOML has no null: a column that
is not named is null in a row that is inserted, as it was in one that is updated, and not compared
in one that is expected. Those that are to be null are named by `null`. Pure: the text is given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from lockstep.pipeline.catalog import Catalog, TableName
from lockstep.pipeline.errors import ManifestError, Problem, meant, shown
from lockstep.pipeline.fields import Text, parse_table
from lockstep.pipeline.pg_types import parse_type
from lockstep.pipeline.plan import Plan, PlannedTable
from lockstep.pipeline.toml_file import FormatVersion, Strict, TomlFile, read_toml, validate
from lockstep.pipeline.toml_lines import KeyPath
from lockstep.pipeline.toml_values import column_value

TESTS_FOLDER = "tests"
"""Of a pipeline's folder."""
INSERT, UPDATE, DELETE = "insert", "update", "delete"
_VERBS = (INSERT, UPDATE, DELETE)
Row = Mapping[str, Any]


class WriteStep(Strict):
    """One statement: exactly one of insert, update and delete names its table."""

    insert: Text | None = Field(None, description="the table that gets the row")
    update: Text | None = Field(None, description="the table whose row gets these values")
    delete: Text | None = Field(None, description="the table that loses the row of this key")
    row: Mapping[str, Any] = Field(description="columns and values; the key's must be there")
    null: tuple[Text, ...] = Field((), description="columns that become null")


class ExpectedRow(Strict):
    """A row of the result, in the hourly table and in the stream's alike."""

    row: Mapping[str, Any] = Field(description="columns and values; the key's must be there")
    null: tuple[Text, ...] = Field((), description="columns that are null")


class TransactionStep(Strict):
    """A transaction, and the result's rows after it."""

    write: tuple[WriteStep, ...] = Field(description="what it does, in order")
    expect: tuple[ExpectedRow, ...] = Field((), description="rows that there are then")
    gone: tuple[Mapping[str, Any], ...] = Field((), description="keys of which there is no row")


class StepsManifest(Strict):
    """tests/*.toml: transactions one after the other, from empty tables on."""

    format_version: FormatVersion = Field(description="the format of this file: 1")
    transaction: tuple[TransactionStep, ...] = Field(description="one after the other")


@dataclass(frozen=True)
class TypedWrite:
    """verb: insert, update or delete. values: of the columns that are named, of Python's types."""

    verb: str
    table: TableName
    values: Row


@dataclass(frozen=True)
class Expected:
    """row: the columns to compare, as TOML has them, None for null; None where there is no row."""

    line: int
    key: tuple[Any, ...]
    row: Row | None


@dataclass(frozen=True)
class TypedTransaction:
    """line: of the file, from 1."""

    line: int
    writes: tuple[TypedWrite, ...]
    expected: tuple[Expected, ...]


def read_steps(text: str, file: Path, plan: Plan, catalog: Catalog) -> list[TypedTransaction]:
    """The transactions of a file's text, for a pipeline.

    Raises ManifestError with each problem: a table or column that the query does not read, a value
    that is none of its type, a key that is not whole.
    """
    toml = read_toml(text, file)
    read = validate(StepsManifest, toml)
    if read.model is None:
        raise ManifestError(read.problems)
    reader = _Reader(plan, catalog, toml)
    found = [
        reader.transaction(("transaction", place), step)
        for place, step in enumerate(read.model.transaction)
    ]
    if reader.problems:
        raise ManifestError(reader.problems)
    return found


class _Reader:
    def __init__(self, plan: Plan, catalog: Catalog, toml: TomlFile) -> None:
        self._plan, self._catalog, self._toml = plan, catalog, toml
        self.problems: list[Problem] = []

    def transaction(self, path: KeyPath, step: TransactionStep) -> TypedTransaction:
        writes = [self._write((*path, "write", n), one) for n, one in enumerate(step.write)]
        expected = [
            *(self._expected((*path, "expect", n), one) for n, one in enumerate(step.expect)),
            *(self._gone((*path, "gone", n), row) for n, row in enumerate(step.gone)),
        ]
        return TypedTransaction(
            self._line(path),
            tuple(one for one in writes if one is not None),
            tuple(one for one in expected if one is not None),
        )

    def _write(self, path: KeyPath, step: WriteStep) -> TypedWrite | None:
        named = [verb for verb in _VERBS if getattr(step, verb) is not None]
        if len(named) != 1:
            self._problem(path, "needs exactly one of insert, update and delete, with the table")
            return None
        [verb] = named
        table = self._table((*path, verb), getattr(step, verb))
        if table is None:
            return None
        values = self._values((*path, "row"), table, step.row)
        for n, name in enumerate(step.null):
            if name not in table.columns:
                self._no_column((*path, "null", n), name, table)
            elif not self._catalog.table(table.name).column(name).is_nullable:
                self._problem((*path, "null", n), f"{name} of {table.name} is NOT NULL")
            values[name] = None
        self._require(path, step.row, table.key, f"of the primary key of {table.name}")
        if verb == DELETE:
            self._require_no_more((*path, "row"), step.row, table.key)
        if verb == INSERT:
            self._require_not_null(path, table, values)
        return TypedWrite(verb, table.name, values)

    def _expected(self, path: KeyPath, step: ExpectedRow) -> Expected | None:
        outputs = self._plan.outputs
        for n, name in enumerate((*step.row, *step.null)):
            if name not in outputs:
                at = ("row", name) if n < len(step.row) else ("null", n - len(step.row))
                message = f"the result has no column {name}: {meant(name, outputs)}"
                self._problem((*path, *at), message)
        key = self._key((*path, "row"), step.row)
        row = {**step.row, **dict.fromkeys(step.null)}
        return None if key is None else Expected(self._line(path), key, row)

    def _gone(self, path: KeyPath, row: Row) -> Expected | None:
        self._require_no_more(path, row, self._plan.key)
        key = self._key(path, row)
        return None if key is None else Expected(self._line(path), key, None)

    def _key(self, path: KeyPath, row: Row) -> tuple[Any, ...] | None:
        """Of the result, which is the fact's."""
        if not self._require(path, row, self._plan.key, "of the key"):
            return None
        fact = self._plan.fact
        named = zip(fact.key, self._plan.key, strict=True)
        found = [self._value((*path, name), fact, column, row[name]) for column, name in named]
        return tuple(found)

    def _table(self, path: KeyPath, name: str) -> PlannedTable | None:
        try:
            return self._plan.tables[parse_table(name)]
        except ValueError as error:
            self._problem(path, str(error))
        except KeyError:
            known = list(map(str, self._plan.tables))
            self._problem(path, f"the query reads no table {name}: {meant(name, known)}")
        return None

    def _values(self, path: KeyPath, table: PlannedTable, row: Row) -> dict[str, Any]:
        found = {}
        for name, value in row.items():
            if name in table.columns:
                found[name] = self._value((*path, name), table, name, value)
            else:
                self._no_column((*path, name), name, table)
        return found

    def _value(self, path: KeyPath, table: PlannedTable, name: str, value: Any) -> Any:
        type_ = table.types[name]
        pg = parse_type(self._catalog.table(table.name).column(name).type, self._catalog)
        try:
            return column_value(value, pg, type_)
        except ValueError as error:
            self._problem(path, f"{shown(value)} is no {type_.pg}: {error}")
            return None

    def _require(self, path: KeyPath, row: Row, names: Sequence[str], what: str) -> bool:
        lacking = [name for name in names if name not in row]
        if lacking:
            self._problem(path, f"lacks {', '.join(lacking)} {what}")
        return not lacking

    def _require_no_more(self, path: KeyPath, row: Row, key: Sequence[str]) -> None:
        for name in row:
            if name not in key:
                self._problem((*path, name), f"{name} is no column of the key: remove it")

    def _require_not_null(self, path: KeyPath, table: PlannedTable, values: Row) -> None:
        columns = map(self._catalog.table(table.name).column, table.columns)
        lacking = [one.name for one in columns if not one.is_nullable and one.name not in values]
        if others := [name for name in lacking if name not in table.key]:
            self._problem(path, f"lacks {', '.join(others)}, which {table.name} has NOT NULL")

    def _no_column(self, path: KeyPath, name: str, table: PlannedTable) -> None:
        message = f"the query reads no column {name} of {table.name}: {meant(name, table.columns)}"
        self._problem(path, message)

    def _problem(self, path: KeyPath, message: str) -> None:
        self.problems.append(self._toml.problem(path, message))

    def _line(self, path: KeyPath) -> int:
        return self._toml.problem(path, "").line
