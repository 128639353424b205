"""The SQL that finds which rows of a window differ between an hourly table and a stream.

Text only: who runs it binds two views, batch_rows (the window's rows of the hourly table) and
stream_changes (all changes that the change log has of the keys which either side has in the
window). What explains a difference of values is not here: at_cut.py and cause.py.
"""

from collections.abc import Mapping
from string import Template

from lockstep.cdc.cuts import DatabaseSnapshot
from lockstep.model.verdict import DifferenceClass
from lockstep.model.window import Window
from lockstep.pipeline.names import quoted
from lockstep.pipeline.plan import Plan
from lockstep.sinks.window_conditions import of_time

COMMIT = ("op", "tx_id", "commit_lsn", "committed_at")
"""What is kept of a change, apart from its values."""
BATCH_ROWS, STREAM_CHANGES = "batch_rows", "stream_changes"
_QUERY = Template("""WITH batch_rows_by_key AS (
    SELECT key, ANY_VALUE(batch) AS batch, COUNT(*) AS batch_rows
    FROM (SELECT $key AS key, $row AS batch FROM $batch_rows)
    GROUP BY key
),
changes AS (
    SELECT
        $key AS key,
        $change AS change,
        commit_lsn,
        $is_seen AS is_seen
    FROM $stream_changes
),
streamed AS (
    SELECT
        key,
        MAX_BY(change, commit_lsn) FILTER (WHERE is_seen) AS stream,
        MAX_BY(change, commit_lsn) FILTER (WHERE NOT is_seen) AS after_cut,
        COUNT_IF(is_seen) - SIZE(COLLECT_SET(commit_lsn) FILTER (WHERE is_seen))
            AS repeated_changes
    FROM changes
    GROUP BY key
),
paired AS (
    SELECT
        COALESCE(one.key, other.key) AS key,
        one.batch,
        COALESCE(one.batch_rows, 0) AS batch_rows,
        other.stream,
        other.after_cut,
        COALESCE(other.repeated_changes, 0) AS repeated_changes,
        one.batch IS NOT NULL AS in_batch
    FROM batch_rows_by_key AS one
    FULL OUTER JOIN streamed AS other ON one.key <=> other.key
),
judged AS (
    SELECT
        *,
        -- What the hourly table has not may still be of another window, by the stream.
        COALESCE(stream.op <> 'd' AND (in_batch OR $is_in_window), FALSE) AS in_stream,
        $differing AS differing
    FROM paired
)
SELECT
    key,
    $kind AS class,
    in_batch,
    in_stream,
    batch,
    stream,
    after_cut,
    batch_rows,
    repeated_changes,
    differing
FROM judged
""")


def is_seen(column: str, seen: DatabaseSnapshot) -> str:
    """The condition for a transaction that a snapshot sees; null is the initial snapshot's."""
    condition = f"{column} < {seen.xmin} OR {column} < {seen.xmax}"
    if seen.in_progress:
        listed = ", ".join(map(str, sorted(seen.in_progress)))
        condition += f" AND {column} NOT IN ({listed})"
    return f"({column} IS NULL OR {condition})"


def differences_sql(plan: Plan, seen: DatabaseSnapshot, window: Window) -> str:
    """A query that gives each row of the window, with both sides and its class.

    seen: the snapshot that the hourly run read. The stream's row is the last change of a key whose
    transaction it sees. Columns of the result:
    - key: struct of k0, k1, …, the values of plan.key;
    - class: the first of DifferenceClass that applies, null of a row that agrees. dimension_drift
      is never among them: it is a value_mismatch that the source's history explains;
    - in_batch, in_stream: whether either side has the row in the window at the cut;
    - batch: struct of c0, c1, …, the values of plan.outputs; null where there is none;
    - stream: struct of the last change that is seen: c0, c1, … as batch, then op, tx_id,
      commit_lsn and committed_at; after_cut: the same of the last one that is not seen;
    - batch_rows, repeated_changes: how many rows the hourly table has of the key, and how many
      of the changes that are seen are there again at the same commit_lsn;
    - differing: the positions in plan.outputs of the columns whose values differ.
    """
    key, row = _struct(_fields("k", plan.key)), _struct(_fields("c", plan.outputs))
    change = _struct({**_fields("c", plan.outputs), **{name: name for name in COMMIT}})
    time = f"c{plan.outputs.index(plan.time)}"
    return _QUERY.substitute(
        key=key,
        row=row,
        change=change,
        batch_rows=BATCH_ROWS,
        stream_changes=STREAM_CHANGES,
        is_seen=is_seen("tx_id", seen),
        is_in_window=of_time(window, f"stream.{time}"),
        differing=_differing(plan),
        kind=_class(f"after_cut.{time}", window),
    )


def _class(time_after_cut: str, window: Window) -> str:
    is_new = f"after_cut.op <> 'd' AND {of_time(window, time_after_cut)}"
    rules = {
        DifferenceClass.DUPLICATE_IN_STREAM: "repeated_changes > 0 AND (in_stream OR in_batch)",
        DifferenceClass.MISSING_IN_STREAM: "in_batch AND NOT in_stream",
        DifferenceClass.MISSING_IN_BATCH: "in_stream AND NOT in_batch",
        DifferenceClass.VALUE_MISMATCH: "in_batch AND (SIZE(differing) > 0 OR batch_rows > 1)",
        DifferenceClass.CHANGED_AFTER_CUT: f"in_batch AND after_cut IS NOT NULL OR {is_new}",
    }
    tried = "\n".join(f"        WHEN {rule} THEN '{kind}'" for kind, rule in rules.items())
    return f"CASE\n{tried}\n    END"


def _differing(plan: Plan) -> str:
    compared = [n for n, name in enumerate(plan.outputs) if name not in plan.key]
    found = ", ".join(f"IF(stream.c{n} <=> batch.c{n}, NULL, {n})" for n in compared)
    return f"FILTER(CAST(ARRAY({found}) AS ARRAY<INT>), n -> n IS NOT NULL)"


def _fields(prefix: str, names: tuple[str, ...]) -> dict[str, str]:
    return {f"{prefix}{n}": quoted(name) for n, name in enumerate(names)}


def _struct(fields: Mapping[str, str]) -> str:
    listed = ", ".join(f"'{name}', {value}" for name, value in fields.items())
    return f"NAMED_STRUCT({listed})"
