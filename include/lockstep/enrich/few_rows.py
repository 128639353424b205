"""A query over a few rows, again and again: planned once, and run without Spark's scheduler."""

from base64 import b64decode
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.enrich.plans import run
from lockstep.pipeline.arrow_stream import from_bytes, to_bytes
from lockstep.pipeline.query.at import Rewritten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_CONF = {
    # The plan is compiled once. Expressions outside of its stages would be with each run.
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # It costs such an expression more than it saves.
    "spark.sql.subexpressionElimination.enabled": "false",
    # Of more groups than 128 Spark sorts the rows: these fit into memory.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
    # Spark plans such a query again while it runs, or broadcasts its tables: neither can be kept.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


class FewRows:
    """The query in a session of its own, since views belong to a session; for one thread.

    The rows of its views are handed to the JVM when they change; the plan reads them where they
    are (streams/java/lockstep/KeptPlan.java). A query whose plan keeps rows between two runs, by a
    broadcast, say, is planned for each run instead.
    """

    def __init__(
        self, spark: "SparkSession", query: Rewritten, views: Mapping[str, pa.Table]
    ) -> None:
        """views: all that the query may read, by their names in SQL, with their columns.

        Raises QueryRefusedError as `run` does.
        """
        self._session, self._query = spark.newSession(), query
        for name, value in _CONF.items():
            self._session.conf.set(name, value)
        self._plan = spark._jvm.lockstep.KeptPlan(self._session._jsparkSession)
        self._held: dict[str, pa.Table] = {}
        self._schemas: dict[str, pa.Schema] = {}
        for view, table in views.items():
            if query.reads(view):
                columns = self._session.createDataFrame(table.slice(0, 0)).schema
                self._plan.addView(view, columns.json())
                self._schemas[view] = _arrow_schema(columns)
        planned = self._planned()
        self._result = _arrow_schema(planned.schema)
        self.is_kept = self._plan.keep(planned._jdf)

    def rows(self, views: Mapping[str, pa.Table]) -> pa.Table:
        """What the query gives over these rows of all its views."""
        for view, schema in self._schemas.items():
            if self._held.get(view) is not views[view]:
                self._plan.replace(view, to_bytes(views[view].cast(schema)))
                self._held[view] = views[view]
        if not self.is_kept:
            return self._planned().toArrow()
        found = self._plan.run()
        if found is None:
            return self._result.empty_table()
        return from_bytes(b64decode(found)).cast(self._result)

    def _planned(self) -> "DataFrame":
        return run(self._session, self._query)


def _arrow_schema(columns: "StructType") -> pa.Schema:
    """As Spark gives these columns to Python, and takes them."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(columns, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
