"""`lockstep pipeline lock`: writes down what Spark's analysis finds a query's result to be."""

from pathlib import Path

from lockstep.enrich.plans import result_columns
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.project_files import PIPELINES
from lockstep.pipeline.result import RESULT_FILE, write_result
from lockstep.settings import Settings
from lockstep.spark import stopped_session


def lock_result(name: str) -> tuple[Path, bool]:
    """Write the pipeline's result.lock; returns the file and whether it has changed.

    Raises PipelineError for a broken folder, and for a result that Delta cannot hold; the lock is
    then as it was.
    """
    settings = Settings.load()
    plan = plan_named(settings.project, name)
    file = settings.project / PIPELINES / name / RESULT_FILE
    with stopped_session(settings, f"lockstep lock of {name}") as spark:
        text = write_result(result_columns(spark, plan), name, plan.version)
    if text == plan.result_lock:
        return file, False
    partial = file.with_name(f".{file.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)
    return file, True
