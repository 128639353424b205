"""The text of a Delta type, and what it is in Arrow."""

import pyarrow as pa
import pytest
from deltalake import Schema
from lockstep.pipeline.delta_types import arrow_schema, arrow_type
from lockstep.pipeline.errors import PipelineError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("boolean", pa.bool_()),
        ("tinyint", pa.int8()),
        ("smallint", pa.int16()),
        ("int", pa.int32()),
        ("bigint", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("array<bigint>", pa.list_(pa.int64())),
        ("map<string,decimal(38,0)>", pa.map_(pa.string(), pa.decimal128(38, 0))),
        (
            "array<struct<`a b`:string,inner:struct<c:array<date>>>>",
            pa.list_(
                pa.struct(
                    [("a b", pa.string()), ("inner", pa.struct([("c", pa.list_(pa.date32()))]))]
                )
            ),
        ),
    ],
)
def test_each_type_of_delta_is_one_of_arrow(text: str, expected: pa.DataType) -> None:
    assert arrow_type(text) == expected
    assert Schema.from_arrow(arrow_schema({"c": text})).fields[0].nullable


@pytest.mark.parametrize("text", ["void", "timestamp_ntz", "interval", "array<void>", "nonsense("])
def test_what_delta_does_not_hold_is_refused_by_name(text: str) -> None:
    with pytest.raises(PipelineError, match="is no type that a Delta table"):
        arrow_type(text)
