"""Modes `temporal` and `transaction`: the query over the rows valid at each fact's own commit.

The rows come from memory or the source's history; Spark runs the author's query, rewritten to hold
for many commits at once (pipeline/query/at.py). Only the change log is written here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.cdc.transactions import HELD_CHANGES_MAX, Transaction, TransactionTracker
from lockstep.enrich.few_rows import FewRows
from lockstep.errors import StreamError
from lockstep.faults import Point, reach
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.query.at import AT, AT_LSN, at_rewrite, facts_view, view_name
from lockstep.pipeline.types import arrow_schema as table_schema
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog, Reached
from lockstep.sources import change_topic
from lockstep.streams.children import Children
from lockstep.streams.given_up import GivenUp
from lockstep.streams.large import LargeTransaction
from lockstep.streams.large_rows import large_versions
from lockstep.streams.needed_versions import NeededVersions
from lockstep.streams.rows import commit_columns, key_columns, stamped
from lockstep.streams.sink import Sink
from lockstep.streams.spool import spooled
from lockstep.streams.table_rows import Key, RowVersion, fold_rows, text_of
from lockstep.streams.versions import Version, relation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Evaluation:
    """The pipeline's query as of many commits, in a Spark session of its own."""

    def __init__(self, spark: "SparkSession", plan: Plan) -> None:
        self._plan = plan
        fact = plan.fact
        self._points_schema = table_schema({name: fact.types[name] for name in fact.key})
        self._fact_view = facts_view(plan.query)
        empty = self._views({name: relation(table, ()) for name, table in plan.tables.items()}, ())
        self._query = FewRows(spark, at_rewrite(plan.query, finds_facts=False), empty)
        self._query.rows(empty)  # a JVM's first join takes seconds: not the first fact's

    def rows(self, relations: Mapping[TableName, pa.Table], facts: Sequence[Version]) -> pa.Table:
        """The author's columns, a row for each fact, in the order of the facts.

        relations: of each table that the query reads, as NeededVersions.relations gives them.
        Raises StreamError when the query gives no row for a fact, or more than one.
        """
        found = self._query.rows(self._views(relations, facts))
        keys = [found[name].to_pylist() for name in self._plan.key]
        points = zip(zip(*keys, strict=True), found[AT_LSN].to_pylist(), strict=True)
        places: dict[tuple[Key, int], int] = {}
        for place, point in enumerate(points):
            if places.setdefault(point, place) != place:
                raise self._not_one(point, "more rows than one")
        wanted = [(fact.key, fact.commit_lsn) for fact in facts]
        if missing := [point for point in wanted if point not in places]:
            raise self._not_one(missing[0], "no row")
        taken = pa.array([places[point] for point in wanted], pa.int64())
        return found.drop_columns(AT_LSN).take(taken)

    def _views(
        self, relations: Mapping[TableName, pa.Table], facts: Sequence[Version]
    ) -> dict[str, pa.Table]:
        views = {view_name(name): table for name, table in relations.items()}
        return views | {AT: self._points(facts), self._fact_view: self._at_points(facts)}

    def _at_points(self, facts: Sequence[Version]) -> pa.Table:
        """The facts, each at its own commit."""
        rows = relation(self._plan.fact, facts).drop_columns(["valid_from", "valid_to"])
        commits = pa.array([fact.commit_lsn for fact in facts], pa.int64())
        return rows.append_column(AT_LSN, commits)

    def _not_one(self, point: tuple[Key, int], what: str) -> StreamError:
        key, commit_lsn = point
        text = self._plan.fact.key_text(key)
        return StreamError(
            f"pipeline {self._plan.name}: the query gives {what} for {self._plan.query.fact} "
            f"{text} at LSN {commit_lsn}, and a result has one row for each of the fact: "
            "correct the joins of query.sql"
        )

    def _points(self, facts: Sequence[Version]) -> pa.Table:
        columns = {
            name: pa.array(
                [fact.key[place] for fact in facts], self._points_schema.field(name).type
            )
            for place, name in enumerate(self._plan.fact.key)
        }
        columns[AT_LSN] = pa.array([fact.commit_lsn for fact in facts], pa.int64())
        return pa.table(columns)


class TemporalSink(Sink):
    """The change log of mode `temporal` or `transaction`."""

    def __init__(
        self, log: AppendLog, plan: Plan, needed: NeededVersions, query: Evaluation
    ) -> None:
        self._log, self._plan, self._needed, self._query = log, plan, needed, query
        self._fact = text_of(plan.query.fact)
        self._children = Children(plan, needed)
        self._followed = frozenset(text_of(step.table) for step in plan.steps)
        self.wanted = self._followed | {self._fact}
        if plan.children:
            self._followed = self.wanted

    @property
    def reached(self) -> Reached:
        return self._log.reached

    @property
    def cached_rows(self) -> int:
        return self._needed.count

    def write(
        self, transactions: Sequence[Transaction], frontier: int, resume_offset: int, seen_us: int
    ) -> pa.Table:
        facts: list[RowVersion] = []
        for transaction in transactions:
            found = fold_rows(transaction, transaction.changes, self._needed.living)
            versions = [self._needed.complete(version) for version in found]
            owners = self._children.owners(versions, transaction.commit_lsn)
            self._needed.take(versions, transaction.commit_lsn)
            own = [version for version in versions if version.table == self._fact]
            facts += own
            if owners:
                known = {version.row.key for version in own}
                facts += self._children.touched(owners, known, transaction.commit_lsn)
        rows = stamped(self._rows(facts, seen_us), datetime.now(UTC))
        reach(Point.BEFORE_CHANGE_LOG)
        self._log.append(rows, frontier, resume_offset)
        reach(Point.AFTER_CHANGE_LOG)
        self._needed.settle(frontier)
        return rows

    def write_large(self, large: LargeTransaction, resume_offset: int, seen_us: int) -> int:
        """One commit. First the rows that look-ups lead to are taken in, then the fact's evaluated.

        The result goes through a file: while delta-rs takes a commit it can answer nothing else.
        """
        commit_lsn = large.transaction.commit_lsn
        owners: dict[Key, RowVersion] = {}
        followed = large_versions(large, self._followed, self._needed.living)
        facts = large_versions(large, {self._fact}, self._needed.living)
        for versions in followed:
            complete = list(map(self._needed.complete, versions))
            if large.transaction.tx is not None:  # the snapshot has every row of the fact
                owners |= self._children.owners(complete, commit_lsn)
            self._needed.take(complete, commit_lsn)
        with spooled(self._log.schema, self._large_rows(facts, owners, seen_us)) as rows:
            reach(Point.BEFORE_CHANGE_LOG)
            self._log.append_stream(iter(rows.batches()), commit_lsn, resume_offset)
            reach(Point.AFTER_CHANGE_LOG)
        self._needed.settle(commit_lsn)
        return rows.count

    def _large_rows(
        self, slices: Iterable[list[RowVersion]], owners: dict[Key, RowVersion], seen_us: int
    ) -> Iterator[pa.Table]:
        for versions in slices:
            facts = [self._needed.complete(version) for version in versions]
            for one in facts:
                owners.pop(one.row.key, None)
            yield stamped(self._rows(facts, seen_us), datetime.now(UTC))
        others = list(owners.items())
        for first in range(0, len(others), HELD_CHANGES_MAX):
            some = dict(others[first : first + HELD_CHANGES_MAX])
            facts = list(self._children.touched(some, (), others[first][1].commit_lsn))
            yield stamped(self._rows(facts, seen_us), datetime.now(UTC))

    def maintain(self) -> bool:
        return self._log.maintain()

    def _rows(self, changes: Sequence[RowVersion], seen_us: int) -> pa.Table:
        """The changes with their rows of the result; of a delete the key alone."""
        columns = {**self._outputs(changes), **commit_columns(changes, seen_us)}
        return pa.table(columns, schema=self._log.schema)

    def _outputs(self, changes: Sequence[RowVersion]) -> dict[str, pa.Array]:
        """The author's columns of each change."""
        alive = [one for one in changes if one.row.values is not None]
        alive.sort(key=lambda one: (self._plan.fact.key_text(one.row.key), one.commit_lsn))
        facts = [Version(one.row.key, one.commit_lsn, one.row.values) for one in alive]
        result = self._log.schema.empty_table()
        if facts:
            result = self._query.rows(self._needed.relations(facts), facts)
        places = {(fact.key, fact.commit_lsn): place for place, fact in enumerate(facts)}
        taken = pa.array([places.get((one.row.key, one.commit_lsn)) for one in changes], pa.int64())
        columns = {}
        for name in self._plan.outputs:
            type_ = self._log.schema.field(name).type
            columns[name] = result[name].combine_chunks().take(taken).cast(type_)
        return columns | key_columns(changes, self._plan.key, self._log.schema)


def catch_up(
    settings: Settings, needed: NeededVersions, wanted: frozenset[str], given_up: GivenUp
) -> None:
    """Apply what the topic has between the loaded history and the change log's frontier.

    Raises StreamError when the topic ends before that frontier.
    """
    loaded, frontier = needed.loaded, needed.settled
    if frontier < 0 or (loaded.frontier is not None and loaded.frontier >= frontier):
        return
    tracker = TransactionTracker(
        wanted=wanted, frontier=loaded.frontier, next_offset=loaded.resume_offset, xid_near=0
    )
    end = change_topic.end_offset(settings, given_up.topic)
    for records in change_topic.read_again(settings, loaded.resume_offset, end, given_up.topic):
        decoded = (given_up.decoded(value, offset, wanted) for offset, value in records)
        for transaction in tracker.feed(decoded):
            if transaction.commit_lsn > frontier:
                return
            large = LargeTransaction(settings, transaction, given_up, lambda: None)
            for versions in _slices(large, wanted, needed):
                needed.take(map(needed.complete, versions), transaction.commit_lsn)
        if tracker.frontier is not None and tracker.frontier >= frontier:
            return
    raise StreamError(
        f"{given_up.topic} ends before LSN {frontier}, which this stream has reached already: it "
        "is another topic, or records were removed"
    )


def _slices(
    large: LargeTransaction, wanted: frozenset[str], needed: NeededVersions
) -> Iterable[list[RowVersion]]:
    transaction = large.transaction
    if transaction.changes is None:
        return large_versions(large, wanted, needed.living)
    return [fold_rows(transaction, transaction.changes, needed.living)]
