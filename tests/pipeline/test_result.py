"""result.lock: the types of a query's result, for what runs without Spark."""

import json
from dataclasses import replace

import pytest
from lockstep.enrich.plans import result_columns
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.pipeline.project import read_project
from lockstep.pipeline.result import write_result
from pyspark.sql import SparkSession

from tests.project import PROJECT_DIR

PIPELINES = sorted(read_project(PROJECT_DIR).pipelines)


@pytest.fixture
def plan() -> Plan:
    return plan_named(PROJECT_DIR, PIPELINES[0])


@pytest.mark.parametrize("name", PIPELINES)
def test_each_pipelines_lock_is_of_its_version(name: str) -> None:
    plan = plan_named(PROJECT_DIR, name)
    result = plan.result
    assert tuple(result.columns) == plan.outputs == tuple(result.schema.names)
    assert {*result.key, *result.values} == {*plan.outputs}


@pytest.mark.spark
@pytest.mark.parametrize("name", PIPELINES)
def test_each_pipelines_lock_is_what_spark_finds(spark: SparkSession, name: str) -> None:
    plan = plan_named(PROJECT_DIR, name)
    found = result_columns(spark, plan)
    assert write_result(found, name, plan.version) == plan.result_lock


def test_a_lock_that_is_missing_names_what_writes_it(plan: Plan) -> None:
    with pytest.raises(PipelineError, match=rf"is missing: `lockstep pipeline lock {plan.name}`"):
        _ = replace(plan, result_lock=None).result


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format_version": 1}', '{"columns": 3}'])
def test_a_damaged_lock_is_refused(plan: Plan, text: str) -> None:
    with pytest.raises(PipelineError, match=r"result\.lock is damaged .*`lockstep pipeline lock"):
        _ = replace(plan, result_lock=text).result


def test_a_lock_of_another_version_is_refused(plan: Plan) -> None:
    other = json.loads(plan.result_lock) | {"version": "0123456789abcdef"}
    with pytest.raises(PipelineError, match=rf"0123456789abcdef .* of version {plan.version}"):
        _ = replace(plan, result_lock=json.dumps(other)).result
