"""Which functions a query may call: those whose result is the same each time.

Aggregates and window functions are a list of what is allowed. Of the others, what depends on
clock, chance, place or session is refused. Names are Spark's (4.2); a test compares the lists with
those of its registry. UDFs are judged later, by Spark's analysed plan.
"""

from sqlglot.tokens import TokenType

from lockstep.pipeline.query.text import Call, SqlText

AGGREGATES = frozenset(
    """
    avg bit_and bit_or bit_xor bool_and bool_or count count_if every kurtosis max mean median min
    percentile skewness some std stddev stddev_pop stddev_samp sum try_avg try_sum var_pop var_samp
    variance
    """.split()  # noqa: SIM905
)
"""Allowed: the order of their input does not matter, but for the last bits of floats."""
COLLECTED = frozenset({"array_agg", "collect_list", "collect_set"})
"""Allowed directly in ARRAY_SORT or SORT_ARRAY: their own order is that of arrival."""
DETERMINED = frozenset({"any_value", "first", "first_value", "last", "last_value"})
"""Allowed over an ordered window, and, on the way from the fact, of the fact's own columns."""
OTHER_AGGREGATES = frozenset(
    """
    any approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine bitmap_and_agg bitmap_construct_agg bitmap_or_agg corr count_min_sketch
    covar_pop covar_samp grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
    kll_sketch_agg_double kll_sketch_agg_float listagg max_by measure min_by mode percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg string_agg theta_intersection_agg
    theta_sketch_agg theta_union_agg tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer
    tuple_union_agg_double tuple_union_agg_integer
    """.split()  # noqa: SIM905
)
"""Refused: approximate, undecided among equals, or not needed so far."""
WINDOW_ORDERED = frozenset({"lag", "lead", "nth_value", "ntile", "row_number"}) | DETERMINED
"""Their result depends on the order of equal rows: OVER needs an ORDER BY that has none."""
WINDOW_RANKED = frozenset({"cume_dist", "dense_rank", "percent_rank", "rank"})
GENERATORS = frozenset(
    "explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack".split()  # noqa: SIM905
)
"""Allowed in LATERAL VIEW, as EXPLODE and POSEXPLODE."""
UNREPEATABLE = frozenset(
    """
    aes_encrypt curdate current_catalog current_database current_date current_path current_schema
    current_time current_timestamp current_timezone current_user getdate input_file_block_length
    input_file_block_start input_file_name java_method localtimestamp monotonically_increasing_id
    now rand randn random randstr reflect session_user shuffle spark_partition_id try_reflect
    uniform user uuid version
    """.split()  # noqa: SIM905
)
_WITHOUT_ARGUMENTS = frozenset({"unix_timestamp"})
"""Of the clock when they are called without any."""
_BARE = frozenset({"current_date", "current_time", "current_timestamp", "current_user"})
"""Functions that Spark calls without parentheses, too."""
_REMEDIES = {
    "max_by": "of rows with the same greatest value any may win: MAX(STRUCT(order_by, x)).x",
    "min_by": "of rows with the same least value any may win: MIN(STRUCT(order_by, x)).x",
    "listagg": "ARRAY_JOIN(ARRAY_SORT(COLLECT_LIST(x)), ',')",
    "string_agg": "ARRAY_JOIN(ARRAY_SORT(COLLECT_LIST(x)), ',')",
    "any": "write BOOL_OR",
}
_SORTS = {"array_sort", "sort_array"}


def check_functions(text: SqlText) -> None:
    """Raises QueryRefusedError at the first call of a function that is not allowed."""
    for call in sorted(text.calls(), key=lambda call: call.first):
        _check(text, call)
    for index in range(len(text.tokens)):
        if text.word(index) in _BARE and _is_value(text, index):
            raise _unrepeatable(text, index, index)


def is_windowed(text: SqlText, call: Call) -> bool:
    """Whether OVER follows a call, perhaps behind FILTER ( … ) and IGNORE NULLS."""
    after = _after_filter(text, call)
    while text.word(after) in ("ignore", "respect", "nulls"):
        after += 1
    return text.word(after) == "over"


def _check(text: SqlText, call: Call) -> None:
    place = text.span(call.first, call.last)
    is_bare = call.last == call.first + 2
    if call.name in UNREPEATABLE or (call.name in _WITHOUT_ARGUMENTS and is_bare):
        raise _unrepeatable(text, call.first, call.last)
    if call.name in OTHER_AGGREGATES:
        why = f"the aggregate {call.name} is not on the list of those allowed"
        remedy = _REMEDIES.get(call.name, f"there are: {', '.join(sorted(AGGREGATES))}")
        raise text.refused(place, why, remedy)
    if call.name in COLLECTED and not _is_sorted(text, call):
        why = f"the order of {call.name} is that of arrival"
        raise text.refused(place, why, "write ARRAY_SORT(COLLECT_LIST( … )), without a lambda")
    if call.name in GENERATORS and not _is_in_lateral(text, call):
        why = f"{call.name} multiplies rows unseen here"
        raise text.refused(place, why, "write LATERAL VIEW OUTER EXPLODE( … ) name AS item")
    if call.name in WINDOW_RANKED | (WINDOW_ORDERED - DETERMINED) and not is_windowed(text, call):
        raise text.refused(place, f"{call.name} needs a window", "write … OVER ( … )")


def _unrepeatable(text: SqlText, first: int, last: int) -> Exception:
    why = f"{text.word(first)} gives another result each time, so no two runs could agree"
    return text.refused(text.span(first, last), why, "use a column of the fact, such as its time")


def _is_value(text: SqlText, index: int) -> bool:
    """Not a name behind a dot or AS."""
    is_name = text.word(index - 1) in (".", "as") or text.word(index + 1) in (".", "(")
    return not is_name and text.tokens[index].token_type is not TokenType.STRING


def _is_sorted(text: SqlText, call: Call) -> bool:
    """Directly in ARRAY_SORT( … ) or SORT_ARRAY( …[, ascending]), of no order of the author's."""
    if text.word(call.first - 1) != "(" or text.word(call.first - 2) not in _SORTS:
        return False
    follows = text.word(_after_filter(text, call))
    return follows == ")" or (follows == "," and text.word(call.first - 2) == "sort_array")


def _is_in_lateral(text: SqlText, call: Call) -> bool:
    is_named = call.name in ("explode", "posexplode")
    return is_named and text.word(call.first - 1) in ("view", "outer")


def _after_filter(text: SqlText, call: Call) -> int:
    """The token behind a call and its FILTER ( … )."""
    if text.word(call.last + 1) == "filter":
        return text.closing[call.last + 2] + 1
    return call.last + 1
