"""A pipeline's query in Spark: its tables bound as views, its result's schema."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.delta_types import arrow_type
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.query.at import AT, Rewritten, at_snapshot, view_name
from lockstep.pipeline.types import ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

_PLACE = re.compile(r"== SQL \(line (\d+), position (\d+)\) ==")


def bind(rows: "DataFrame", table: TableName) -> None:
    """Make the rows the view that a rewritten query reads in place of a table.

    A view belongs to the session of the rows, so concurrent callers need sessions of their own.
    """
    rows.createOrReplaceTempView(view_name(table))


def result_schema(spark: "SparkSession", plan: Plan) -> "StructType":
    """The columns of the result as Spark's analysis gives them; every one may be null.

    In a session of its own. Raises PipelineError with the place in query.sql when Spark refuses it.
    """
    from pyspark.sql.types import StructField, StructType

    session = spark.newSession()
    for table in plan.tables.values():
        bind(session.createDataFrame([], ddl(table.types)), table.name)
    found = run(session, at_snapshot(plan.query)).schema
    return StructType([StructField(one.name, one.dataType, True) for one in found])


def result_columns(spark: "SparkSession", plan: Plan) -> dict[str, str]:
    """Name and Delta type of each column of the result, as result.lock has them.

    Raises PipelineError for a type that Delta does not hold, or as result_schema does.
    """
    found = {one.name: _type_text(one.dataType) for one in result_schema(spark, plan)}
    for name, kind in found.items():
        try:
            arrow_type(kind)
        except PipelineError as error:
            raise PipelineError(
                f"pipeline {plan.name}: the column {name} cannot be kept: {error}; CAST it in "
                "query.sql"
            ) from error
    return found


def _type_text(type_: "DataType") -> str:
    """As Spark's SQL writes and reads it; simpleString leaves names of fields without quotes."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(type_, ArrayType):
        return f"array<{_type_text(type_.elementType)}>"
    if isinstance(type_, MapType):
        return f"map<{_type_text(type_.keyType)},{_type_text(type_.valueType)}>"
    if isinstance(type_, StructType):
        return f"struct<{','.join(map(_field_text, type_))}>"
    return type_.simpleString()


def _field_text(field: "StructField") -> str:
    name = field.name if field.name.isidentifier() else quoted(field.name)
    return f"{name}:{_type_text(field.dataType)}"


def value_errors() -> tuple[type[Exception], ...]:
    """What Spark raises when a query fails over a value of its tables."""
    from pyspark.errors import (
        ArithmeticException,
        ArrayIndexOutOfBoundsException,
        DateTimeException,
        NumberFormatException,
    )

    return (
        ArithmeticException,
        ArrayIndexOutOfBoundsException,
        DateTimeException,
        NumberFormatException,
    )


@contextmanager
def evaluated(rewritten: Rewritten) -> Iterator[None]:
    """For a block that evaluates the query. Raises QueryRefusedError, with the place in query.sql,
    when it fails over a value."""
    try:
        yield
    except value_errors() as error:
        raise rewritten.refused(_placed(str(error))) from error


def _placed(message: str) -> str:
    """The first line of an error of Spark's tasks, with the place as its analysis writes it."""
    place = _PLACE.search(message)
    where = f" (line {place[1]}, pos {int(place[2]) - 1})" if place else ""
    return message.splitlines()[0] + where


def run_at(
    session: "SparkSession",
    rewritten: Rewritten,
    tables: Mapping[TableName, "DataFrame"],
    points: "DataFrame",
) -> "DataFrame":
    """The query as of many commits (pipeline/query/at.py).

    tables: every one that the query reads, with valid_from and valid_to. points: the fact's key and
    at_lsn. Raises QueryRefusedError as `run` does.
    """
    views = {view_name(name): rows for name, rows in tables.items()}
    return run_over(session, rewritten, {**views, AT: points})


def run_over(
    session: "SparkSession", rewritten: Rewritten, views: Mapping[str, "DataFrame"]
) -> "DataFrame":
    """The query over these views, by their names in SQL; those that it does not read may lack.

    Raises QueryRefusedError as `run` does.
    """
    for name, rows in views.items():
        rows.createOrReplaceTempView(name)
    return run(session, rewritten)


def run(session: "SparkSession", rewritten: Rewritten) -> "DataFrame":
    """The query over the bound views, analysed.

    Raises QueryRefusedError with the place in query.sql when Spark's analysis refuses it.
    """
    from pyspark.errors import AnalysisException, ParseException

    try:
        return session.sql(rewritten.text)
    except (AnalysisException, ParseException) as error:
        raise rewritten.refused(str(error).splitlines()[0]) from error
