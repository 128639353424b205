"""A pipeline's own tests, run as a stream and as the hourly run."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from lockstep.cli import app
from lockstep.histories import sides, steps
from lockstep.histories.steps import Failure, Outcome, read_tests, run_tests
from lockstep.pipeline.errors import ManifestError, PipelineError
from lockstep.pipeline.plan import plan_of
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.project import PROJECT_DIR

SHIPPED = ("orders_enriched", "consignments_packed")
PLACED = "table_assignment_id = 1, order_time = 2026-11-26T12:00:00Z"
ONE_ORDER = """
format_version = 1
[[transaction]]
write = [
    { insert = "pizzas", row = { id = 1, name = "Margherita", price = 8.5 } },
    { insert = "orders", row = { id = 1, $placed, pizzas = [1] } },
]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One pipeline, without a test of its own."""
    for part in ("include/sources/pizzeria", "include/sql/orders_enriched"):
        shutil.copytree(PROJECT_DIR / part, tmp_path / part)
    shutil.rmtree(tmp_path / "include/sql/orders_enriched/tests")
    return tmp_path


def written(project: Path, more: str) -> Path:
    folder = project / "include/sql/orders_enriched/tests"
    folder.mkdir(exist_ok=True)
    text = (ONE_ORDER + more).replace("$placed", PLACED)
    (folder / "one.toml").write_text(text)
    return project


def outcomes(spark: SparkSession, project: Path, name: str) -> list[Outcome]:
    pipeline = read_project(project).pipeline(name)
    tests = read_tests(project, pipeline)
    settings = Settings(project=project)
    return list(run_tests(spark.newSession(), settings, plan_of(pipeline), tests))


@pytest.mark.spark
@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_tests_pass(spark: SparkSession, name: str) -> None:
    found = outcomes(spark, PROJECT_DIR, name)
    assert found
    assert all(one.rows >= 4 and not one.failures for one in found)


@pytest.mark.spark
def test_a_row_that_is_otherwise_is_shown_as_both_have_it(
    spark: SparkSession, project: Path
) -> None:
    more = """
expect = [{ row = { order_id = 1, pizzas = [{ pizza = "Calzone" }] }, null = ["client_name"] }]
[[transaction]]
write = [{ delete = "orders", row = { id = 1 } }]
expect = [{ row = { order_id = 1 } }]
[[transaction]]
write = [{ insert = "orders", row = { id = 2, $placed, pizzas = [] } }]
gone = [{ order_id = 2 }]
"""
    [found] = outcomes(spark, written(project, more), "orders_enriched")
    one, deleted, there = found.failures
    assert (one.line, one.key, list(one.batch)) == (9, (1,), ["pizzas"])
    assert one.batch == one.stream
    assert one.batch["pizzas"][0]["pizza"] == "Margherita"
    assert (deleted.line, deleted.batch, deleted.stream) == (12, None, None)
    assert (there.line, there.expected) == (15, steps.NO_ROW)
    assert there.batch["order_id"] == there.stream["order_id"] == 2


@pytest.mark.spark
def test_a_stream_that_writes_nothing_fails_although_nothing_is_expected(
    spark: SparkSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides.Stream, "rows", lambda _self, made, _rng: [[] for _ in made])
    [found] = outcomes(spark, written(project, ""), "orders_enriched")
    [failure] = found.failures
    assert (failure.line, failure.expected, failure.stream) == (3, steps.SAME_ROW, None)
    assert failure.batch is not None


WRITTEN = {
    "order_id": 1,
    "order_time": datetime(2026, 11, 26, 12, tzinfo=UTC),
    "client_name": None,
    "table_name": None,
    "pizzas": [],
    "op": "c",
}
"""As both sides have the one order."""
STREAMS = {
    "nothing is wrong": ([WRITTEN], [{**WRITTEN, "op": "d"}], 0),
    "another value of a column that is not named": (
        [{**WRITTEN, "table_name": "x"}],
        [{**WRITTEN, "op": "d"}],
        1,
    ),
    "a row twice": ([WRITTEN, WRITTEN], [{**WRITTEN, "op": "d"}], 1),
    "a row and its delete": ([WRITTEN, {**WRITTEN, "op": "d"}], [{**WRITTEN, "op": "d"}], 1),
    "no delete": ([WRITTEN], [], 1),
}


@pytest.mark.parametrize("what", STREAMS)
def test_a_key_that_is_named_is_compared_in_all_its_columns(
    project: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Both sides are played here: only what is made of them is tried."""
    *streamed, failures = STREAMS[what]
    more = """
expect = [{ row = { order_id = 1 }, null = ["client_name"] }]
[[transaction]]
write = [{ delete = "orders", row = { id = 1 } }]
gone = [{ order_id = 1 }]
"""
    pipeline = read_project(written(project, more)).pipeline("orders_enriched")
    plan, tests = plan_of(pipeline), read_tests(project, pipeline)
    hourly = [{(1,): WRITTEN}, {}]
    monkeypatch.setattr(
        steps, "Stream", lambda *_: SimpleNamespace(rows=lambda _made, _rng: streamed)
    )
    monkeypatch.setattr(
        steps,
        "Batch",
        lambda *_: SimpleNamespace(rows=lambda made: hourly[made.transaction.tx_id - 1]),
    )
    [found] = run_tests(None, Settings(project=project), plan, tests)
    assert len(found.failures) == failures


UNSOUND = {
    "a row that is there": (
        'write = [{ insert = "pizzas", row = { id = 1, name = "a", price = 1 } }]',
        "public.pizzas has a row of the key [1] already",
    ),
    "a row that is not there": (
        'write = [{ update = "clients", row = { id = 5, name = "a" } }]',
        "public.clients has no row of the key [5]",
    ),
    "a row that the transaction leaves alone": (
        """write = [{ update = "pizzas", row = { id = 1, price = 1 } }]
expect = [{ row = { order_id = 1 } }]""",
        "the transaction touches no row of the key [1], so that a stream writes none",
    ),
}


@pytest.mark.parametrize("what", UNSOUND)
def test_what_a_database_would_refuse_is_named_before_spark_is_started(
    project: Path, what: str
) -> None:
    more, message = UNSOUND[what]
    written(project, "[[transaction]]\n" + more)
    with pytest.raises(ManifestError, match=r"one\.toml:(8|10): ") as refused:
        read_tests(project, read_project(project).pipeline("orders_enriched"))
    assert message in str(refused.value)


def called(monkeypatch: pytest.MonkeyPatch, project: Path, *arguments: str):
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(project))
    command = ["pipeline", *arguments]
    return CliRunner().invoke(app, command, env={"COLUMNS": "100"})


def test_a_pipeline_without_tests_says_where_they_are_written(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    found = called(monkeypatch, project, "test", "orders_enriched")
    assert isinstance(found.exception, PipelineError)
    assert "has no tests: write include/sql/orders_enriched/tests/SOMETHING.toml" in str(
        found.exception
    )


def test_the_command_says_what_is_as_expected_and_shows_what_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of(read_project(PROJECT_DIR).pipeline("orders_enriched"))
    failure = Failure(7, (1,), {"client_name": "Ada"}, {"client_name": None}, {"client_name": "B"})
    gone = Failure(9, (2,), steps.NO_ROW, {"order_id": 2}, None)
    found = [Outcome(Path("a.toml"), 3, ()), Outcome(Path("b.toml"), 2, (failure, gone))]
    monkeypatch.setattr(steps, "run_named", lambda _name: (plan, found))
    shown = called(monkeypatch, PROJECT_DIR, "test", "orders_enriched")
    assert shown.exit_code == 1
    lines = [line.split() for line in shown.output.splitlines()]
    assert lines[0] == ["a.toml:", "3", "rows,", "all", "as", "expected"]
    assert lines[1] == ["b.toml:7:", "order_id", "1", "is", "not", "as", "expected"]
    assert lines[3] == ["client_name", '"Ada"', "null", '"B"']
    assert lines[-1] == ["no", "row", "a", "row", "no", "row"]
    monkeypatch.setattr(steps, "run_named", lambda _name: (plan, found[:1]))
    assert called(monkeypatch, PROJECT_DIR, "test", "orders_enriched").exit_code == 0
