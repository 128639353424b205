"""The comparison of a pipeline's window as a command: what `lockstep pipeline compare` does."""

from functools import cache

from rich.console import Console

from lockstep import jars
from lockstep.model.window import Window
from lockstep.parity.check import check_window
from lockstep.parity.command import EXIT_CODES
from lockstep.parity.readiness import readiness
from lockstep.parity.report import print_checks
from lockstep.parity.sides import Sides
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import plan_named
from lockstep.settings import Settings
from lockstep.spark import spark_session


def compare_window(name: str, mode: Mode, start: str, end: str) -> int:
    """Compare the window [start, end), ISO 8601, of a pipeline's hourly table with a mode.

    Prints what was found, and adds a line to the pipeline's ledger; returns the exit code of the
    verdict: 0 pass, 1 fail, 2 not covered, 3 waiting. Raises LockstepError; what is not there at
    all before Spark is started.
    """
    window = Window.parse(start, end)
    settings = Settings.load().of(name)
    plan = plan_named(settings.project, name)
    jars.classpath(settings, "spark")
    ready = readiness(settings, plan, window, mode)
    rows = ready.run.orders_at_cut
    session = cache(lambda: spark_session(settings, f"lockstep compare {name} {window}", rows))
    try:
        check = check_window(session, Sides(settings, plan, window, mode, ready))
    finally:
        if session.cache_info().currsize:
            session().stop()
    print_checks(Console(highlight=False), plan.row_keys, [check])
    return EXIT_CODES[check.line.verdict]
