"""The comparison of a pipeline's window as a command: what `lockstep pipeline compare` does."""

from functools import cache

from rich.console import Console

from lockstep import jars
from lockstep.model.window import Window
from lockstep.parity.command import EXIT_CODES
from lockstep.parity.pipeline_comparison import compare
from lockstep.parity.pipeline_readiness import pipeline_readiness
from lockstep.parity.pipeline_report import print_comparison
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import plan_of
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from lockstep.spark import spark_session


def compare_window(name: str, mode: Mode, start: str, end: str) -> int:
    """Compare the window [start, end), ISO 8601, of a pipeline's hourly table with a mode.

    Prints what was found; returns the exit code of the verdict: 0 pass, 1 fail, 2 not covered, 3
    waiting. Raises LockstepError; what is not there at all before Spark is started.
    """
    window = Window.parse(start, end)
    settings = Settings.load()
    plan = plan_of(read_project(settings.project).pipeline(name))
    jars.classpath(settings, "spark")
    ready = pipeline_readiness(settings, plan, mode, window)
    session = cache(lambda: spark_session(settings, f"lockstep compare {name} {window}"))
    try:
        found = compare(session, plan, mode, window, ready)
    finally:
        if session.cache_info().currsize:
            session().stop()
    print_comparison(Console(highlight=False), plan, mode, window, found)
    return EXIT_CODES[found.verdict]
