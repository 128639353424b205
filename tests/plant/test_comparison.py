"""The comparison finds what differs, in the right class, with its evidence, and nothing else."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from lockstep.contracts import DifferenceClass, Verdict
from lockstep.parity.pipeline_comparison import Comparison, Difference, compare
from lockstep.parity.pipeline_readiness import pipeline_readiness
from pyspark.sql import SparkSession

from tests.plant.history import COMPARED, NOON, WINDOW, History, Works, in_window, site_of
from tests.plant.planned import NAMES
from tests.plant.tables import MODE, Tables, plan_by_number

pytestmark = pytest.mark.spark

SEEDS = (11, 12, 13)
TRANSACTIONS = 260
FAULTS_OF_A_SEED = 45


def compared(spark: SparkSession, tables: Tables) -> Comparison:
    tables.write()
    ready = pipeline_readiness(tables.settings, tables.plan, MODE, WINDOW)
    return compare(lambda: spark, tables.plan, MODE, WINDOW, ready)


def by_key(found: Comparison) -> dict[str, Difference]:
    return {one.key[0]: one for one in found.differences}


def classes(found: Comparison) -> dict[str, str]:
    return {key: str(one.kind) for key, one in by_key(found).items()}


def transactions(one: Difference, column: str) -> set[int]:
    return {change.tx_id for change in one.causes[NAMES.names[column]]}


def logical(name: str) -> str:
    return next(known for known, word in NAMES.names.items() if word == name)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_history_differs_by_drifts_and_later_changes_alone(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    print(f"seed {seed}")  # noqa: T201 - shown when a test fails
    history = Works(seed).shift(TRANSACTIONS)
    tables = Tables(history, plan_by_number(tmp_path / "project"), tmp_path)
    found = compared(spark, tables)
    expected = history.expected()
    assert classes(found) == expected
    assert found.counts == Counter(expected.values())
    assert found.verdict is Verdict.PASS
    drifted = [key for key, kind in expected.items() if kind == "dimension_drift"]
    assert len(drifted) > 10
    for key in drifted:
        one = by_key(found)[key]
        for column in map(logical, one.columns):
            assert transactions(one, column) == history.causes(key, column), (key, column)
