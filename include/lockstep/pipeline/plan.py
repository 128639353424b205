"""What a pipeline is for those that run it: its query, and each table that it reads, decoded.

Pure: made from the project's folder, before a database, Kafka or Spark is asked.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from lockstep.pipeline import names
from lockstep.pipeline.catalog import Catalog, Table, TableName
from lockstep.pipeline.checks import NO_CHECKS, Checks, ChecksManifest
from lockstep.pipeline.decoders import RowDecoder
from lockstep.pipeline.errors import PipelineError, TypeRefusedError
from lockstep.pipeline.folder import QUERY_FILE
from lockstep.pipeline.manifest import PipelineManifest, column_of
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.names import history_path, table_path
from lockstep.pipeline.project import Pipeline, Project, read_project
from lockstep.pipeline.project_files import PIPELINE_FILE, PIPELINES
from lockstep.pipeline.query.analysis import Query, analyse
from lockstep.pipeline.query.names import Base, SourceColumn
from lockstep.pipeline.query.reach import Reach, equalities_of_joins, needed_rows
from lockstep.pipeline.result import RESULT_FILE, Result, read_columns
from lockstep.pipeline.result_tables import ORIGIN, ORIGIN_WITH_CHILDREN
from lockstep.pipeline.row_keys import RowKeys
from lockstep.pipeline.type_table import ValueType
from lockstep.pipeline.types import key_text, value_type
from lockstep.pipeline.version import pipeline_version


@dataclass(frozen=True)
class PlannedTable:
    """A table of the source, and those of its columns that are read; the key's are among them.

    types: of each column that is read, in the table's order. decoder: of a row with these columns.
    key_decoder: of the key alone, in its order: all that a DELETE has for certain.
    """

    name: TableName
    key: tuple[str, ...]
    types: Mapping[str, ValueType]
    decoder: RowDecoder
    key_decoder: RowDecoder

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return self.decoder.columns

    @cached_property
    def key_places(self) -> tuple[int, ...]:
        """Where the key's columns are in a decoded row."""
        return tuple(self.columns.index(name) for name in self.key)

    @cached_property
    def key_types(self) -> tuple[ValueType, ...]:
        return tuple(self.types[name] for name in self.key)

    def key_of(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The primary key in the values of a decoded row."""
        return self._pick_key(values)

    @cached_property
    def _pick_key(self) -> itemgetter:
        """Without a loop for each row. Of one place it gives a value, of a slice a tuple."""
        first, *others = self.key_places
        return itemgetter(first, *others) if others else itemgetter(slice(first, first + 1))

    def key_text(self, key: tuple[Any, ...]) -> str:
        """The text of a primary key, as the history has it."""
        return key_text(key, self.key_types)


@dataclass(frozen=True)
class Plan:
    """A pipeline that can be run.

    tables: those that the query reads, the fact first. steps: the look-ups that fetch what a
    micro-batch needs. key: the result's key columns, each the copy of the fact's primary key column
    at the same place of fact.key. children: the columns of each child table that have the fact's
    primary key, in its order. result_lock: the text of result.lock; None when there is none.
    checks_file: checks.toml as it was read; None when there is none.
    """

    name: str
    source: str
    manifest: PipelineManifest
    query: Query
    tables: Mapping[TableName, PlannedTable]
    steps: tuple[Reach, ...]
    key: tuple[str, ...]
    children: Mapping[TableName, tuple[str, ...]] = field(default_factory=dict)
    result_lock: str | None = None
    checks_file: Checks | None = None

    @cached_property
    def version(self) -> str:
        """The pipeline's version: rows of another one are not comparable."""
        types = {name: table.types for name, table in self.tables.items()}
        return pipeline_version(self.query, self.time, types, self.children)

    @property
    def fact(self) -> PlannedTable:
        return self.tables[self.query.fact]

    @cached_property
    def equalities(self) -> Mapping[TableName, tuple[Reach, ...]]:
        """Every equality that leads to a table, where a joined row fulfils all of them."""
        return equalities_of_joins(self.query)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The author's columns of the result, in their order."""
        return tuple(column.name for column in self.query.outputs)

    @cached_property
    def result(self) -> Result:
        """The result's columns, as result.lock has them.

        Raises PipelineError when there is no lock, or when it is of another version.
        """
        file = PIPELINES / self.name / RESULT_FILE
        columns = read_columns(self.result_lock, file, self.name, self.version)
        return Result(columns, self.key, self.time)

    @property
    def lock_problem(self) -> str:
        """What is wrong with result.lock, and what to do; empty if nothing."""
        try:
            _ = self.result
        except PipelineError as error:
            return str(error)
        return ""

    @cached_property
    def checks(self) -> ChecksManifest:
        """The author's checks, which fit the result; none without a file.

        Raises ManifestError when they do not fit, PipelineError as `result` does.
        """
        return self.checks_file.against(self.result.columns) if self.checks_file else NO_CHECKS

    @cached_property
    def row_keys(self) -> RowKeys:
        """The keys of the result's rows."""
        return RowKeys(self.key, self.fact.key_types)

    @property
    def time(self) -> str | None:
        """The column of the result that says which window a row is in."""
        return self.manifest.time

    @property
    def fact_time(self) -> str | None:
        """The timestamp column of the fact that the time is a plain copy of, if there is one.

        Then the facts of a window are those whose column is in it, for the fact is read once and
        each of its rows makes rows of its own.
        """
        copied = self.query.copied(self.time) if self.time is not None else None
        if copied is None or copied.is_element or copied.column.table != self.query.fact:
            return None
        name = copied.column.column
        return name if self.fact.types[name].delta == "timestamp" else None

    @property
    def hourly_table(self) -> str:
        """The path of the hourly table below the lakehouse."""
        return table_path(self.name, Mode.BATCH)

    @property
    def origin_columns(self) -> Mapping[str, str]:
        """What the hourly table has of the rows that each of its own was made of."""
        return ORIGIN_WITH_CHILDREN if self.children else ORIGIN

    def change_log(self, mode: Mode) -> str:
        """The path of a mode's change log below the lakehouse."""
        return table_path(self.name, mode)

    @property
    def history(self) -> str:
        """The path of the source's history below the lakehouse."""
        return history_path(self.source)

    @property
    def change_topic(self) -> str:
        return names.change_topic(self.source)

    @property
    def captured(self) -> tuple[TableName, ...]:
        """The tables whose changes its streams need: those that it reads, and its outbox."""
        outbox = () if self.manifest.outbox is None else (self.manifest.outbox,)
        return tuple(dict.fromkeys([*self.tables, *outbox]))

    @property
    def message_prefix(self) -> str:
        """Of the logical messages that mode message reads."""
        return self.manifest.message_prefix or names.message_prefix(self.name)

    @property
    def outbox(self) -> TableName:
        """The table that mode outbox reads. Raises PipelineError when the manifest names none."""
        if self.manifest.outbox is None:
            raise PipelineError(
                f"pipeline {self.name} has no outbox: name the table to which the application "
                f"publishes by `outbox` in {PIPELINES / self.name / PIPELINE_FILE}"
            )
        return self.manifest.outbox


@lru_cache
def plan_of(pipeline: Pipeline) -> Plan:
    """The plan of a sound pipeline; made once for each as it was read, since it takes 20 ms.

    Raises PipelineError with what is wrong and what to do: what the query's analysis refuses, a
    type that cannot be read exactly, a table without a primary key, a key of the result that is no
    copy of the fact's primary key, a time column that the query does not give, or a child that is
    not joined by the fact's primary key.
    """
    manifest, catalog = pipeline.manifest, pipeline.source.catalog
    file = PIPELINES / pipeline.name / QUERY_FILE
    query = analyse(pipeline.query, file, catalog, manifest.fact, manifest.key)
    time_zones = _time_zones([manifest])
    try:
        tables = {
            one.table: _planned(catalog, one.table, one.columns, time_zones)
            for one in query.relations
        }
    except TypeRefusedError as error:
        raise error.read_at(query.place_of(error.table, error.column)) from None
    steps = needed_rows(query)
    _check_time(pipeline, query)
    return Plan(
        name=pipeline.name,
        source=pipeline.source.name,
        manifest=manifest,
        query=query,
        tables=tables,
        steps=steps,
        key=_key_outputs(pipeline, query),
        children=dict(_children(pipeline, query, steps)),
        result_lock=pipeline.result_lock,
        checks_file=pipeline.checks,
    )


def plan_named(folder: Path, name: str) -> Plan:
    """The plan of a pipeline of a project's folder. Raises as Project.pipeline and plan_of do."""
    return plan_of(read_project(folder).pipeline(name))


def run_problem(pipeline: Pipeline) -> str:
    """Why a sound folder's pipeline cannot run all the same, and what to do; empty if nothing.

    Its query or a type may be refused, its checks not fit, its result.lock be missing or old.
    """
    try:
        plan = plan_of(pipeline)
        _ = plan.checks
    except PipelineError as error:
        return str(error)
    return plan.lock_problem


def plans_of(project: Project, source: str) -> list[Plan]:
    """The plans of a source's pipelines, by name; without those that cannot be planned.

    `lockstep pipeline check` and their own commands name what is wrong with these.
    """
    plans = []
    for pipeline in project.pipelines.values():
        if pipeline.source.name == source:
            with suppress(PipelineError):
                plans.append(plan_of(pipeline))
    return plans


def tables_followed(project: Project, source: str) -> set[TableName]:
    """The tables whose changes streams of the source's pipelines need."""
    return {table for plan in plans_of(project, source) for table in plan.captured}


def captured_tables(
    plans: Iterable[Plan], catalog: Catalog, without: Collection[tuple[TableName, str]] = ()
) -> dict[TableName, PlannedTable]:
    """Each table of a source that one of its pipelines reads, with all columns that any reads.

    These are what the source's history keeps. without: columns that it is not to keep, no key's.
    Raises PipelineError as plan_of does.
    """
    plans = list(plans)
    time_zones = _time_zones(plan.manifest for plan in plans)
    read: dict[TableName, set[str]] = {}
    for plan in plans:
        for name, table in plan.tables.items():
            wanted = (column for column in table.columns if (name, column) not in without)
            read.setdefault(name, set()).update(wanted)
    return {name: _planned(catalog, name, columns, time_zones) for name, columns in read.items()}


def _planned(
    catalog: Catalog,
    name: TableName,
    columns: Iterable[str],
    time_zones: Mapping[tuple[TableName, str], str],
) -> PlannedTable:
    table = catalog.table(name)
    if not table.key:
        raise PipelineError(
            f"table {name} has no primary key, so its rows cannot be followed: ALTER TABLE {name} "
            "ADD PRIMARY KEY ( … ), then write the catalog again with `lockstep source add`"
        )
    wanted = {*columns, *table.key}
    read = [column for column in table.columns if column.name in wanted]
    types = {
        column.name: value_type(column, name, catalog, time_zones.get((name, column.name)))
        for column in read
    }
    _check_key_types(table, types)
    decoder = RowDecoder(table, [column.name for column in read], types)
    return PlannedTable(name, table.key, types, decoder, RowDecoder(table, table.key, types))


def _check_key_types(table: Table, types: Mapping[str, ValueType]) -> None:
    for name in table.key:
        if not types[name].may_be_key:
            raise PipelineError(
                f"table {table.name}: the primary key's column {name} is of type {types[name].pg}, "
                "which has no exact text: use a key of integers, text, uuid, numeric, date or time"
            )


def _time_zones(manifests: Iterable[PipelineManifest]) -> dict[tuple[TableName, str], str]:
    return {
        column_of(column): zone
        for manifest in manifests
        for column, zone in manifest.time_zones.items()
    }


def _key_outputs(pipeline: Pipeline, query: Query) -> tuple[str, ...]:
    """The result's key columns in the order of the fact's primary key."""
    copied = {name: query.copied(name) for name in query.key}
    found = []
    for column in query.fact_key:
        wanted = SourceColumn(query.fact, column)
        name = next((name for name, base in copied.items() if base == Base(wanted)), None)
        if name is None:
            raise PipelineError(
                f"pipeline {pipeline.name}: no column of `key` is a copy of {wanted}, which is in "
                "the fact's primary key; in this version a row of the result is a row of the fact: "
                f"SELECT {column}, and name it in `key`"
            )
        found.append(name)
    if len(found) != len(query.key):
        more = ", ".join(name for name in query.key if name not in found)
        raise PipelineError(
            f"pipeline {pipeline.name}: `key` has {more} in addition to the fact's primary key; in "
            "this version a row of the result is a row of the fact: remove it"
        )
    return tuple(found)


def _children(
    pipeline: Pipeline, query: Query, steps: Iterable[Reach]
) -> Iterator[tuple[TableName, tuple[str, ...]]]:
    """Each child, with the columns by which the query finds its rows for a row of the fact."""
    for child in pipeline.manifest.children:
        joined = {
            tuple(dict(zip(step.from_columns, step.columns, strict=True))[name] for name in fact)
            for fact in [query.fact_key]
            for step in steps
            if step.table == child and step.from_table == query.fact and not step.is_element
            if set(step.from_columns) >= set(fact)
        }
        if len(joined) != 1:
            fault = "in more ways than one" if joined else "not"
            raise PipelineError(
                f"pipeline {pipeline.name}: {child} is among `children`, and the query joins it "
                f"{fault} by all of the fact's primary key ({', '.join(query.fact_key)}): join it "
                "so, by =, or leave it out of `children`"
            )
        yield child, joined.pop()


def _check_time(pipeline: Pipeline, query: Query) -> None:
    time = pipeline.manifest.time
    outputs = [column.name for column in query.outputs]
    if time is not None and time not in outputs:
        raise PipelineError(
            f"pipeline {pipeline.name}: `time` is {time}, which the query does not give: it gives "
            f"{', '.join(outputs)}"
        )
