"""The declaration for the streams: what is expected of a window's changes, and of its parity.

Like suite.py for the hourly table: the page to read and to change, for every pipeline. FAIL fails
the task that compared the window, WARN is reported. Names like $value_mismatch_max are facts of the
comparison under check (stream_check.py gives them their values).
"""

from lockstep.model.verdict import CheckStatus, DifferenceClass, Verdict
from lockstep.pipeline.result import Result
from lockstep.quality.suite import ABSENT, ALL_UNIQUE, BETWEEN, IN_SET, Check, fact, plain, present

FAIL, WARN = CheckStatus.FAIL, CheckStatus.WARN

DELIVERED_SECONDS = 5
DELIVERED_SHARE = 0.99
"""Three times what all five modes in one driver take on two cores (p99 1.7 s). A stream that was
down delivers late what came meanwhile, and a rebuilt one everything: true, and worth a report, but
no defect of the rows. Hence a warning; that a stream lags now is for its supervision."""

WORK_SECONDS_MAX = 600
"""From a change seen by the driver to its writing: whatever waited before, for the connector or for
the stream, is not in it. A micro-batch of 50,000 records is half a minute's work for the slowest
mode, and a transaction of a million rows ten minutes' (1,700 rows a second)."""

CLOCK_SECONDS_MAX = 1
"""Between the database's clock and the driver's. NTP keeps machines within milliseconds; when they
are seconds apart, no latency means anything."""

# Of the changes of every result alike.
_WRITTEN = (
    Check("op present", FAIL, ABSENT, {"column": "op"}, "no nulls"),
    Check("position present", FAIL, ABSENT, {"column": "commit_lsn"}, "no nulls in commit_lsn"),
    Check("times present", FAIL, IN_SET, {"column": "has_times", "value_set": [True]}, "all four"),
    Check("op known", FAIL, IN_SET, {"column": "op", "value_set": ["c", "u", "d"]}, "c, u or d"),
)
_IN_ORDER = (
    Check(
        "positions increase",
        FAIL,
        IN_SET,
        {"column": "is_after_earlier", "value_set": [True]},
        "what is written later of a row was committed later",
    ),
    Check(
        "transaction known",
        FAIL,
        IN_SET,
        {"column": "has_transaction", "value_set": [True]},
        "a tx_id, but for rows of the initial snapshot",
    ),
    Check(
        "partition is its date",
        FAIL,
        IN_SET,
        {"column": "is_in_its_partition", "value_set": [True]},
        "the UTC date of committed_at",
    ),
)
_DELIVERED = (
    Check(
        "raced only by the look-up",
        FAIL,
        IN_SET,
        {"column": "is_raced", "value_set": fact("raced_values")},
        "{raced}",
    ),
    Check(
        "written after the commit",
        FAIL,
        BETWEEN,
        {"column": "seconds_from_commit", "min_value": -CLOCK_SECONDS_MAX},
        f"clocks at most {CLOCK_SECONDS_MAX} s apart",
    ),
    Check(
        "delivered within seconds",
        WARN,
        BETWEEN,
        {
            "column": "latency_seconds",
            "max_value": DELIVERED_SECONDS,
            "mostly": DELIVERED_SHARE,
        },
        f"{DELIVERED_SHARE:.0%} written within {DELIVERED_SECONDS} s of the commit",
    ),
    Check(
        "not held up",
        FAIL,
        BETWEEN,
        {"column": "work_seconds", "max_value": WORK_SECONDS_MAX},
        f"written within {WORK_SECONDS_MAX} s of being seen",
    ),
)

# Of the comparison: a frame of one row, its verdict and the differing rows of each class.
PARITY_CHECKS = (
    *(
        Check(
            str(kind),
            FAIL,
            "ExpectColumnMaxToBeBetween",
            {"column": str(kind), "min_value": 0, "max_value": fact(f"{kind}_max")},
            f"{{{kind}_allowed}}",
        )
        for kind in DifferenceClass
    ),
    Check(
        "verdict",
        FAIL,
        "ExpectColumnMostCommonValueToBeInSet",
        {"column": "verdict", "value_set": [str(Verdict.PASS)]},
        str(Verdict.PASS),
    ),
)


def change_checks(result: Result) -> tuple[Check, ...]:
    """Of the changes: the frame of change_log.sql, a row for each change of a window's rows."""
    at_position = [*result.key, "commit_lsn"]
    return (
        *present(result.key),
        *_WRITTEN,
        Check(
            "one change at a position",
            FAIL,
            ALL_UNIQUE,
            {"column_list": at_position, "ignore_row_if": "any_value_is_missing"},
            "no row twice at one commit_lsn",
        ),
        *_IN_ORDER,
        Check(
            "deletes name nothing",
            FAIL,
            IN_SET,
            {"column": "is_bare_delete", "value_set": [True]},
            plain(f"nulls in all columns but {', '.join(result.key)}"),
        ),
        *_DELIVERED,
    )
