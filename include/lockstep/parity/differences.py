"""The SQL of a comparison: which rows of a window differ, and which of them the history explains.

Text only, made from a plan. Who runs it binds views, whose columns have these names: k0, k1, … are
the values of plan.key; c0, c1, … those of plan.outputs that are not in the key.
"""

from collections.abc import Iterable, Sequence
from string import Template

from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.model.verdict import DifferenceClass
from lockstep.model.window import Window
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.tolerate import differing_places
from lockstep.sinks.window_conditions import of_time

BATCH_ROWS, STREAM_CHANGES, REPAIRED = "batch_rows", "stream_changes", "repaired"
"""The views of differences_sql: the window's rows of the hourly table, one for each key (`batch`: a
struct of the values and origin; `batch_rows`: how many there are); all changes that the change log
has of the keys which either side has in the window; and the keys of repaired rows, each with the
number of the cut (`cut`) that it is judged at."""
SUSPECTS, ASKED, AT_POINTS = "suspects", "asked", "at_points"
"""The views of explained_sql: rows of differences_sql; their keys with the numbers of their points;
and what the query gives there (key, values, at_lsn)."""
IS_RACE = "is_race"
"""The column of explained_sql behind the key's."""
COMMIT = ("op", "tx_id", "commit_lsn", "committed_at")
"""What is kept of a change, apart from its values."""
_OF_ROW = (*COMMIT, "is_raced", "look_up")
_DIFFERENCES = Template("""WITH changes AS (
    SELECT
        $key,
        NAMED_STRUCT($change) AS change,
        NAMED_STRUCT($later) AS later,
        commit_lsn,
        $is_seen AS is_seen
    FROM $stream_changes$with_repaired
),
streamed AS (
    SELECT
        $key,
        MAX_BY(change, commit_lsn) FILTER (WHERE is_seen) AS stream,
        MAX_BY(later, commit_lsn) FILTER (WHERE NOT is_seen) AS after_cut,
        COUNT_IF(is_seen) - SIZE(COLLECT_SET(commit_lsn) FILTER (WHERE is_seen))
            AS repeated_changes
    FROM changes
    GROUP BY $key
),
paired AS (
    SELECT
        $either_key,
        hourly.batch,
        COALESCE(hourly.batch_rows, 0) AS batch_rows,
        streamed.stream,
        streamed.after_cut,
        COALESCE(streamed.repeated_changes, 0) AS repeated_changes
    FROM $batch_rows AS hourly
    FULL OUTER JOIN streamed ON $is_paired
),
judged AS (
    SELECT
        *,
        batch_rows > 0 AS in_batch,
        -- What the hourly table has not may still be of another window, by the stream; a row that
        -- was gone when it was looked up has no time.
        COALESCE(
            stream.op <> 'd'
            AND (batch_rows > 0 OR $is_in_window OR (stream.is_raced AND $has_no_time)),
            FALSE
        ) AS in_stream,
        $differing AS differing
    FROM paired
)
SELECT
    $key,
    $kind AS class,
    in_batch,
    in_stream,
    batch,
    stream,
    after_cut,
    batch_rows,
    repeated_changes,
    IF(in_batch AND in_stream, differing, CAST(ARRAY() AS ARRAY<INT>)) AS differing
FROM judged
""")
_EXPLAINED = Template("""SELECT
    $key,
    COALESCE(stream.is_raced, FALSE) AND NOT (rows_at_commit = 1 AND $is_as_at_commit) AS $is_race
FROM (
    SELECT $suspect_key, suspects.batch, suspects.stream, suspects.batch_rows,
        evaluated.rows_in_stream, evaluated.rows_at_commit, evaluated.rows_in_cut,
        evaluated.in_stream, evaluated.at_commit, evaluated.in_cut
    FROM suspects
    INNER JOIN (
        SELECT
            $asked_key,
            COUNT_IF(at_points.at_lsn = asked.stream_point) AS rows_in_stream,
            COUNT_IF(at_points.at_lsn = asked.commit_point) AS rows_at_commit,
            COUNT_IF(at_points.at_lsn = asked.cut_point) AS rows_in_cut,
            ANY_VALUE(at_points.result) FILTER (WHERE at_points.at_lsn = asked.stream_point)
                AS in_stream,
            ANY_VALUE(at_points.result) FILTER (WHERE at_points.at_lsn = asked.commit_point)
                AS at_commit,
            ANY_VALUE(at_points.result) FILTER (WHERE at_points.at_lsn = asked.cut_point) AS in_cut
        FROM asked
        LEFT JOIN (SELECT $key, at_lsn, NAMED_STRUCT($row) AS result FROM at_points) AS at_points
            ON $is_asked
        GROUP BY $asked_key
    ) AS evaluated ON $is_evaluated
) AS both_sides
WHERE
    batch_rows = 1
    AND rows_in_cut = 1
    AND IF(stream.is_raced, rows_in_stream <= 1, rows_in_stream = 1)
    AND $are_explained
""")


def is_seen(column: str, seen: DatabaseSnapshot) -> str:
    """The condition for a transaction that a snapshot sees; null is the initial snapshot's."""
    condition = f"{column} < {seen.xmin} OR {column} < {seen.xmax}"
    if seen.in_progress:
        listed = ", ".join(map(str, sorted(seen.in_progress)))
        condition += f" AND {column} NOT IN ({listed})"
    return f"({column} IS NULL OR {condition})"


def values_of(plan: Plan) -> tuple[str, ...]:
    """The columns of the result that are not in its key, in their order: c0, c1, …"""
    return tuple(name for name in plan.outputs if name not in plan.key)


def key_names(plan: Plan) -> list[str]:
    """k0, k1, … of plan.key."""
    return [f"k{n}" for n in range(len(plan.key))]


def value_names(plan: Plan) -> list[str]:
    """c0, c1, … of values_of(plan)."""
    return [f"c{n}" for n in range(len(values_of(plan)))]


def differences_sql(plan: Plan, cuts: Sequence[DatabaseSnapshot], window: Window) -> str:
    """A query that gives each row of the window, with both sides and its class.

    cuts: the snapshot that the hourly run read, and those that repairs read; the view REPAIRED,
    which is read only if there are more than one, has their places here. A change counts when its
    row's snapshot sees its transaction, and the last of these is the row of the stream. Columns of
    the result, after those of the key:
    - class: the first of DifferenceClass that applies, null of a row that agrees. lookup_race and
      dimension_drift are never among them: each is a value_mismatch that explained_sql finds;
    - in_batch, in_stream: whether either side has the row in the window at the cut;
    - batch: struct of the values, and origin; null where there is none;
    - stream: struct of the last change that is seen: the values, op, tx_id, commit_lsn,
      committed_at, is_raced and look_up (the look-up's snapshot); after_cut: of the last one that
      is not seen the time and the columns of the commit;
    - batch_rows, repeated_changes: how many rows the hourly table has of the key, and how many
      of the changes that are seen are there again at the same commit_lsn;
    - differing: the places in values_of(plan) of the columns whose values differ.
    """
    key, values = key_names(plan), value_names(plan)
    time = _time(plan)
    return _DIFFERENCES.substitute(
        key=", ".join(key),
        either_key=", ".join(f"COALESCE(hourly.{name}, streamed.{name}) AS {name}" for name in key),
        is_paired=_same(key, "hourly", "streamed"),
        change=_fields([*values, *_OF_ROW]),
        later=_fields(dict.fromkeys([time, *COMMIT]) if time in values else COMMIT),
        batch_rows=BATCH_ROWS,
        stream_changes=STREAM_CHANGES,
        with_repaired=f" LEFT JOIN {REPAIRED} USING ({', '.join(key)})" if len(cuts) > 1 else "",
        is_seen=_is_seen_by(cuts),
        is_in_window=of_time(window, _of(time, "stream")),
        has_no_time=f"{_of(time, 'stream')} IS NULL",
        differing=_differing(plan),
        kind=_class(of_time(window, _of(time, "after_cut"))),
    )


def explained_sql(plan: Plan) -> str:
    """A query that gives the keys of the suspects that the history explains.

    A differing column is explained when the stream's value is what the query gives at the stream's
    point, and the hourly table's what it gives at the cut. All columns of a raced row must be what
    the look-up's snapshot held; null, when it did not see the row. At each point there must be just
    one row, and the hourly table must have the row once. ASKED has only those suspects that may be
    explained at all.

    IS_RACE: whether the row is raced, and a column that differs has not what the query gives at the
    change's own commit. Where all of them have that, the look-up came in time for what differs.
    """
    key, values = key_names(plan), value_names(plan)
    return _EXPLAINED.substitute(
        key=", ".join(key),
        asked_key=", ".join(f"asked.{name}" for name in key),
        suspect_key=", ".join(f"suspects.{name}" for name in key),
        row=_fields(values),
        is_asked=_same(key, ASKED, AT_POINTS),
        is_evaluated=_same(key, SUSPECTS, "evaluated"),
        are_explained="\n    AND ".join(_is_explained(plan, name) for name in values) or "TRUE",
        is_race=IS_RACE,
        is_as_at_commit=" AND ".join(_is_as_at_commit(plan, name) for name in values) or "TRUE",
    )


def _is_explained(plan: Plan, name: str) -> str:
    is_of_stream = _is_equal(plan, name, "stream", "both_sides.in_stream")
    is_of_cut = _is_equal(plan, name, "batch", "both_sides.in_cut")
    is_of_batch = _is_equal(plan, name, "stream", "batch")
    return (
        f"(NOT stream.is_raced OR {is_of_stream}) AND "
        f"({is_of_batch} OR {is_of_stream} AND {is_of_cut})"
    )


def _is_as_at_commit(plan: Plan, name: str) -> str:
    is_of_batch = _is_equal(plan, name, "stream", "batch")
    return f"({is_of_batch} OR {_is_equal(plan, name, 'stream', 'both_sides.at_commit')})"


def _is_equal(plan: Plan, name: str, one: str, other: str) -> str:
    """The condition for the same value of a column on two sides, as the manifest has it."""
    tolerate, kind = plan.manifest.tolerate, ""
    if tolerate.float_epsilon:  # else types do not matter, and there may be no result.lock yet
        kind = plan.result.columns[values_of(plan)[value_names(plan).index(name)]]
    return tolerate.same(kind, f"{one}.{name}", f"{other}.{name}")


def _same(key: Iterable[str], one: str, other: str) -> str:
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in key)


def _is_seen_by(cuts: Sequence[DatabaseSnapshot]) -> str:
    run, *repairs = cuts
    if not repairs:
        return is_seen("tx_id", run)
    tried = " ".join(
        f"WHEN {place} THEN {is_seen('tx_id', cut)}" for place, cut in enumerate(repairs, 1)
    )
    return f"CASE cut {tried} ELSE {is_seen('tx_id', run)} END"


def _class(is_new: str) -> str:
    rules = {
        DifferenceClass.DUPLICATE_IN_STREAM: "repeated_changes > 0 AND (in_stream OR in_batch)",
        DifferenceClass.MISSING_IN_STREAM: "in_batch AND NOT in_stream",
        DifferenceClass.MISSING_IN_BATCH: "in_stream AND NOT in_batch",
        DifferenceClass.VALUE_MISMATCH: "in_batch AND (SIZE(differing) > 0 OR batch_rows > 1)",
        DifferenceClass.CHANGED_AFTER_CUT: (
            f"in_batch AND after_cut IS NOT NULL OR after_cut.op <> 'd' AND {is_new}"
        ),
    }
    tried = "\n".join(f"        WHEN {rule} THEN '{kind}'" for kind, rule in rules.items())
    return f"CASE\n{tried}\n    END"


def _differing(plan: Plan) -> str:
    return differing_places(_is_equal(plan, name, "stream", "batch") for name in value_names(plan))


def _time(plan: Plan) -> str:
    """The name of the time's column in the views."""
    if plan.time in plan.key:
        return f"k{plan.key.index(plan.time)}"
    return f"c{values_of(plan).index(plan.time)}"


def _of(time: str, side: str) -> str:
    """The time of one side: a key is of both."""
    return time if time.startswith("k") else f"{side}.{time}"


def _fields(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}', {name}" for name in names)
