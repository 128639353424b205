"""`lockstep pipeline lock`: the types of a query's result, kept in the pipeline's folder."""

from typing import Annotated

import typer


def lock(name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")]) -> None:
    """Write result.lock: the columns of the query's result with their types, as Spark finds them.

    Commands and pages that run without Spark read the types there. Write it again after a change of
    the query or of the tables that it reads; keep it in version control.
    """
    from lockstep.batch.result_lock import lock_result

    file, is_changed = lock_result(name)
    typer.echo(f"{file} {'is written' if is_changed else 'is as it was'}")
    if is_changed:
        typer.echo(
            "Airflow makes the pipeline's DAGs of it. Of the project's own pipeline the hourly run "
            f"begins by itself: `lockstep airflow dags pause {name}__batch` keeps it waiting"
        )
