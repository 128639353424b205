"""The `lockstep` command: one module to a group of sub-commands, wired up here.

A LockstepError ends the command with one clear line on standard error and its exit code; what the
modules print on success is theirs. Heavy imports (Spark, Airflow) stay inside the commands.
"""

import os
from typing import Annotated

import typer

from lockstep.cli import (
    airflow,
    batch,
    capture,
    installed,
    maintain,
    parity,
    pipeline,
    project,
    publish,
    quality,
    source,
    sql,
    stack,
    stream,
    upgrade,
)
from lockstep.errors import exit_on_error

app = typer.Typer(
    help="Keep the SQL, prove the stream: hourly batch and streams, side by side.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def choose(
    pipeline: Annotated[
        str,
        typer.Option(
            "--pipeline",
            "-p",
            help="The pipeline that the command works for; default: LOCKSTEP_PIPELINE, or the "
            "project's choice.",
        ),
    ] = "",
) -> None:
    """Keep the SQL, prove the stream: hourly batch and streams, side by side."""
    if pipeline:
        os.environ["LOCKSTEP_PIPELINE"] = pipeline


project.register(app)
stack.register(app)
app.add_typer(batch.app, name="batch", help="The hourly enrichment, by hand.")
app.add_typer(
    pipeline.app,
    name="pipeline",
    help="Pipelines from folders: check them, run, follow and compare them.",
)
app.add_typer(stream.app, name="stream", help="The streams: start, stop, look at them.")
app.add_typer(
    parity.app, name="parity", help="Compare batch and streams; how far they are verified."
)
app.add_typer(quality.app, name="quality", help="Check a window's rows; build its Data Docs.")
app.add_typer(publish.app, name="publish", help="The table that consumers read, and what feeds it.")
app.add_typer(source.app, name="source", help="The pipelines' databases: add and capture them.")
app.add_typer(capture.app, name="capture", help="Change capture: begin it from scratch.")
maintain.register(app)
upgrade.register(app)
sql.register(app)
airflow.register(app)
installed.register(app)


def main() -> None:
    """Entry point of the console script."""
    with exit_on_error():
        app()
