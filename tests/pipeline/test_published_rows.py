"""What an application publishes of a row: exact values, and what is refused by its field."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from lockstep.pipeline.published_rows import PublishedRow, published_decoder
from lockstep.pipeline.result import Result

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
IN_BERLIN = NOON.astimezone(timezone(timedelta(hours=1)))
PARCELS = Result(
    {
        "depot": "string",
        "parcel no": "decimal(6,1)",
        "weighed_at": "timestamp",
        "kilos": "array<struct<scale:string,kg:decimal(5,2)>>",
    },
    ("depot", "parcel no"),
    "weighed_at",
)
KEY = {"depot": "north", "parcel no": 7.5}
ROW = {
    **KEY,
    "op": "u",
    "weighed_at": IN_BERLIN.isoformat(),
    "kilos": [{"scale": "A", "kg": 2.5}, {"scale": None, "kg": "0.25"}, None],
}


def decoded(content: dict, result: Result = PARCELS) -> PublishedRow:
    return published_decoder(result)(json.dumps(content))


def test_a_row_has_its_key_and_its_values_in_the_order_of_the_result() -> None:
    found = decoded(dict(reversed(ROW.items())))
    assert found.op == "u"
    assert found.key == ("north", Decimal("7.5"))
    kilos = [("A", Decimal("2.50")), (None, Decimal("0.25")), None]
    assert found.values == (NOON, kilos)
    assert str(found.values[1][0][1]) == "2.50"


def test_a_delete_has_the_key_alone_whatever_else_is_published() -> None:
    assert decoded({"op": "d", **KEY}) == PublishedRow("d", ("north", Decimal("7.5")), None)
    assert decoded({**ROW, "op": "d", "kilos": 5}).values is None


@pytest.mark.parametrize("op", ["c", "u"])
@pytest.mark.parametrize("field", ["depot", "parcel no", "weighed_at", "kilos"])
def test_a_field_that_is_missing_is_refused_by_its_name(op: str, field: str) -> None:
    content = {**ROW, "op": op, f"{field}_renamed": ROW[field]}
    del content[field]
    with pytest.raises(ValueError, match=f"missing required field `{field}`"):
        decoded(content)


def test_a_delete_without_its_whole_key_is_refused() -> None:
    with pytest.raises(ValueError, match="missing required field `parcel no`"):
        decoded({"op": "d", "depot": "north"})


def test_a_field_that_the_result_does_not_have_passes() -> None:
    assert decoded({**ROW, "colour": {"red": [1]}}) == decoded(ROW)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("op", "t", "Invalid value 't'"),
        ("op", None, "Expected `str`"),
        ("depot", None, "Expected `str`"),
        ("weighed_at", None, "weighed_at"),
        ("weighed_at", "2026-01-01T12:00:00", "timezone"),
        ("parcel no", 7.55, r"field `parcel no`: '7.55' is no numeric\(6,1\)"),
        ("kilos", [{"scale": "A"}], "missing required field `kg`"),
        ("kilos", [{"scale": "A", "kg": 2.505}], r"field `kg`: '2.505' is no numeric\(5,2\)"),
        ("kilos", [{"scale": "A", "kg": "1000.00"}], r"is no numeric\(5,2\)"),
        ("kilos", [{"scale": "A", "kg": "NaN"}], "field `kilos`: field `kg`: 'NaN' is no number"),
        ("kilos", [{"scale": "A", "kg": "Infinity"}], r"is no numeric\(5,2\)"),
        ("kilos", [{"scale": 5, "kg": 1}], "Expected `str"),
    ],
)
def test_a_value_that_its_column_does_not_hold_is_refused(
    field: str, value: object, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        decoded({**ROW, field: value})


@pytest.mark.parametrize("text", ["{", "[]", "5", b"\xff"])
def test_what_is_no_object_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"truncated|Expected `object`|malformed|Invalid"):
        published_decoder(PARCELS)(text)


@pytest.mark.parametrize(
    ("delta", "value", "expected"),
    [
        ("boolean", True, True),
        ("tinyint", -128, -128),
        ("smallint", 2**15 - 1, 2**15 - 1),
        ("int", -(2**31), -(2**31)),
        ("bigint", 2**63 - 1, 2**63 - 1),
        ("float", 0.1, pa.scalar(0.1, pa.float32()).as_py()),
        ("double", "-Infinity", float("-inf")),
        ("string", "ü\n", "ü\n"),
        ("binary", "AP8=", b"\x00\xff"),
        ("date", "0001-01-01", date(1, 1, 1)),
        ("timestamp", "2026-01-01T13:00:00.000001+01:00", NOON + timedelta(microseconds=1)),
        ("array<array<int>>", [[1, None], None], [[1, None], None]),
        ("map<string,decimal(3,1)>", {"a": 1, "b": None}, [("a", Decimal("1.0")), ("b", None)]),
        ("struct<a:date,b:array<binary>>", {"a": None, "b": ["AA=="]}, {"a": None, "b": [b"\0"]}),
    ],
)
def test_arrow_takes_a_value_of_any_type_as_it_was_published(
    delta: str, value: object, expected: object
) -> None:
    result = Result({"id": "bigint", "value": delta}, ("id",), None)
    for published, found in ((value, expected), (None, None)):
        (got,) = decoded({"op": "c", "id": 1, "value": published}, result).values
        array = pa.array([got], result.schema.field("value").type)
        assert array.to_pylist() == [found]


@pytest.mark.parametrize(
    ("delta", "value"),
    [("smallint", 2**15), ("int", 2**31), ("bigint", 2**63), ("bigint", 1.5), ("float", 1e39)],
)
def test_a_number_out_of_range_is_refused(delta: str, value: float) -> None:
    with pytest.raises(ValueError, match="value"):
        decoded(
            {"op": "c", "id": 1, "value": value},
            Result({"id": "int", "value": delta}, ("id",), None),
        )
