"""A Spark session for the joins of micro-batches: a few rows, again and again the same plan."""

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERPRETED_ROWS_MAX = 1_000
"""More facts than these at once are worth compiling their plan (20 orders: 93 ms, not 109)."""


class FewRows:
    """session: one of its own, since views belong to a session."""

    def __init__(self, spark: "SparkSession") -> None:
        self.session = spark.newSession()
        self._bound: dict[str, pa.Table] = {}

    def expect(self, facts: int) -> None:
        """Have the plan of so many facts compiled, or interpreted."""
        is_worth_compiling = facts > INTERPRETED_ROWS_MAX
        self.session.conf.set("spark.sql.codegen.wholeStage", is_worth_compiling)
        factory = "FALLBACK" if is_worth_compiling else "NO_CODEGEN"
        self.session.conf.set("spark.sql.codegen.factoryMode", factory)

    def bind(self, view: str, table: pa.Table) -> None:
        """Make the table's rows the view, which it stays while the same table is given for it.

        One partition, joined by hash: a few rows are not worth an exchange each.
        """
        if self._bound.get(view) is not table:
            rows = self.session.createDataFrame(table).coalesce(1).hint("shuffle_hash")
            rows.createOrReplaceTempView(view)
            self._bound[view] = table
