"""The comparison made from the plan agrees with the one that was written by hand for the pizzeria.

Both read the same tables: those of before, whose `origin` and `look_up` also have what the order
refers to, which the handwritten SQL takes from there.
"""

import random
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from lockstep.parity import comparison as generated
from lockstep.pipeline.delta_types import arrow_schema, arrow_type
from lockstep.pipeline.modes import Mode
from pyspark.sql import SparkSession

from tests.parity.history import WINDOW
from tests.parity.oracle import comparison as oracle
from tests.parity.planted_faults import (
    FAULTS,
    PLAN,
    WRONG_LOOK_UPS,
    Tables,
    found_in,
    is_wrong,
    some_evening,
)
from tests.parity.planted_faults import ORIGIN as ORIGIN_NOW
from tests.pizzeria_tables import change_log_columns

pytestmark = pytest.mark.spark

ROUNDS = 6
FAULTS_OF_A_ROUND = 120
ORIGIN = pa.struct(
    {
        "table_assignment_id": pa.int64(),
        "pizza_ids": pa.list_(pa.int32()),
        **{field.name: field.type for field in ORIGIN_NOW},
    }
)


class TablesOfBefore(Tables):
    """With the fields that origin and look_up had."""

    def batch_schema(self) -> pa.Schema:
        schema = super().batch_schema()
        return schema.set(schema.get_field_index("origin"), pa.field("origin", ORIGIN))

    def log_schema(self, mode: Mode) -> pa.Schema:
        columns = change_log_columns(mode)
        if "look_up" not in columns:
            return arrow_schema(columns)
        schema = arrow_schema(columns)
        type_ = arrow_type(oracle.LOOK_UP_TYPE)
        return schema.set(schema.get_field_index("look_up"), pa.field("look_up", type_))


def refers_elsewhere(tables: Tables, change: dict) -> bool:
    """Whether the look-up says that the order refers to other rows than the hourly table's.

    Only the handwritten SQL can see that: the other one has it from the history.
    """
    look_up, origin = change["look_up"], tables.batch_row(change)["origin"]
    return look_up is not None and any(look_up[name] != origin[name] for name in oracle.REFERS_TO)


def plant(tables: Tables, rng: random.Random, *, of_look_ups: bool) -> Counter[str]:
    """Faults of some orders that have one change only; how many of each."""
    planted: Counter[str] = Counter()
    for change in rng.sample(tables.live(), FAULTS_OF_A_ROUND):
        if not of_look_ups:
            fault = rng.choice(FAULTS)
            planted[fault.__name__] += fault(tables, change) is not None
            continue
        fault = rng.choice(WRONG_LOOK_UPS)
        spoilt = fault(tables, change, rng) | {"is_raced": True}
        spoils = is_wrong(tables, spoilt)
        if spoils or not refers_elsewhere(tables, spoilt):
            change.update(spoilt)
            planted[fault.__name__] += spoils
    return planted


def test_both_find_the_same_class_for_each_order(spark: SparkSession, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    planted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for number in range(ROUNDS):
        rng = random.Random(f"{seed} {number}")
        history = some_evening(rng, number)
        tables = TablesOfBefore(history, tmp_path / str(number))
        of_look_ups = number % 3 == 2
        if of_look_ups:
            tables.log = history.looked_up_log(rng)
        planted += plant(tables, rng, of_look_ups=of_look_ups)
        classes = found_in(tables.compare(spark, Mode.LOOKUP))
        arguments = (tables.settings, PLAN, WINDOW, Mode.LOOKUP, tables.ready())
        assert classes == oracle.classes(spark, *arguments), number
        assert len(classes) < generated.KEPT_OF_A_CLASS
        found.update(map(str, classes.values()))
    assert planted.total() >= 400
    assert set(planted) == {fault.__name__ for fault in (*FAULTS, *WRONG_LOOK_UPS)}
    assert len(found) == 7
