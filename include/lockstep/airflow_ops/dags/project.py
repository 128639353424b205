"""The DAGs of all pipelines of a project. A pipeline with problems takes no other along."""

from collections.abc import Callable, Iterator
from functools import partial

from airflow.sdk import DAG, task

from lockstep.airflow_ops.dags.cutover import cutover_dag
from lockstep.airflow_ops.dags.hourly import hourly_dag
from lockstep.airflow_ops.dags.of_pipeline import BROKEN, PipelineDags, default_args
from lockstep.airflow_ops.dags.parity import parity_dag
from lockstep.airflow_ops.dags.publish import publish_dag
from lockstep.airflow_ops.dags.repair import repair_dag
from lockstep.airflow_ops.dags.streams import stream_dag
from lockstep.model.modes import StreamMode
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.names import SEPARATOR
from lockstep.pipeline.project import Project, read_project
from lockstep.settings import Settings


def make_dags(settings: Settings, wanted: str | None = None) -> list[DAG]:
    """Those of every pipeline; wanted: the id of the only one that is asked for."""
    project = read_project(settings.project)
    return [
        make()
        for name in sorted({*project.pipelines, *project.pipeline_problems})
        for dag_id, make in _of(settings, project, name)
        if wanted in (None, dag_id)
    ]


def _of(settings: Settings, project: Project, name: str) -> Iterator[tuple[str, Callable[[], DAG]]]:
    """What makes each DAG of a pipeline, by its id."""
    pipeline = project.pipelines.get(name)
    of = PipelineDags(settings.of(name), pipeline, project.pipeline_problems.get(name, ()))
    try:
        names = of.names
    except PipelineError as error:
        dag_id = SEPARATOR.join((name, BROKEN))
        yield dag_id, partial(_unreadable, dag_id, name, str(error))
        return
    yield names.hourly_dag_id, partial(hourly_dag, of)
    if of.pipeline is not None and of.pipeline.manifest.time is None:
        return  # without windows nothing is compared, repaired or switched
    yield names.parity_dag_id, partial(parity_dag, of)
    yield names.repair_dag_id, partial(repair_dag, of)
    yield names.publish_dag_id, partial(publish_dag, of)
    yield names.cutover_dag_id, partial(cutover_dag, of)
    for mode in map(StreamMode, names.modes):
        yield names.stream_dag_id(mode), partial(stream_dag, of, mode)


def _unreadable(dag_id: str, name: str, problem: str) -> DAG:
    """In the place of the DAGs of a pipeline whose manifest names nothing."""
    with DAG(
        dag_id=dag_id,
        dag_display_name=f"{name}: broken",
        description=problem,
        doc_md=f"### The pipeline's folder cannot be read\n\n`{problem}`",
        schedule=None,
        catchup=False,
        is_paused_upon_creation=False,
        tags=["lockstep", name, BROKEN],
        default_args=default_args(),
    ) as dag:

        @task
        def say_what_is_wrong():
            """Fails with the problem."""
            raise PipelineError(problem)

        say_what_is_wrong()
    return dag
