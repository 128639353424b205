"""A pipeline's query in Spark: its tables bound as views, its result's schema."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.query.at import AT, Rewritten, at_snapshot, view_name
from lockstep.pipeline.types import ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


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
