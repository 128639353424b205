"""The comparison as a command: of `lockstep parity check`, `pipeline compare` and Airflow's job."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache

from rich.console import Console

from lockstep import jars
from lockstep.errors import LakehouseError
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.model.window import Window
from lockstep.parity.check import Check, check_window
from lockstep.parity.comparison import OtherModes
from lockstep.parity.readiness import modes_with_tables, readiness
from lockstep.parity.report import print_checks
from lockstep.parity.sides import Sides
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import plan_named
from lockstep.settings import Settings
from lockstep.spark import spark_session

EXIT_CODES = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.NOT_COVERED: 2, Verdict.WAITING: 3}
_WORST_FIRST = (Verdict.FAIL, Verdict.NOT_COVERED, Verdict.WAITING, Verdict.PASS)


def check(
    start: str,
    end: str,
    modes: Sequence[StreamMode],
    *,
    pipeline: str = "",
    as_json: bool = False,
    task_log: str = "",
) -> int:
    """Compare the window [start, end), ISO 8601, with the modes (none: all that ever ran).

    pipeline: by default the one that is worked for. task_log: for the ledger, as Comparison has it.
    Prints what was found; returns the exit code of the worst verdict: 0 pass, 1 fail, 2 could not
    be compared, 3 waiting. Raises LockstepError; a bad window before anything is started.
    """
    window = Window.parse(start, end)
    settings = Settings.load_for(pipeline)
    plan = plan_named(settings.project, pipeline or settings.names.pipeline)
    jars.classpath(settings, "spark")
    modes = modes or [StreamMode(mode) for mode in modes_with_tables(settings, plan)]
    if not modes:
        raise LakehouseError("no stream ever ran here: `lockstep stream start all` starts them")
    # What is not there at all is said before Spark starts.
    ready = {mode: readiness(settings, plan, window, mode) for mode in modes}
    rows = max(one.run.orders_at_cut for one in ready.values())
    session = cache(
        lambda: spark_session(settings, f"lockstep parity of {plan.name} {window}", rows)
    )
    others = OtherModes()
    try:
        checks = [
            check_window(
                session, Sides(settings, plan, window, mode, ready[mode]), others, task_log
            )
            for mode in map(Mode, modes)
        ]
    finally:
        if session.cache_info().currsize:
            session().stop()
    if as_json:
        print_json(checks)
    else:
        print_checks(Console(highlight=False), plan.row_keys, checks)
    return EXIT_CODES[worst([one.line.verdict for one in checks])]


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict that decides over all of them."""
    return next(verdict for verdict in _WORST_FIRST if verdict in verdicts)


def print_json(checks: Sequence[Check]) -> None:
    """Each check as one JSON object with its line and its differences."""
    Console(soft_wrap=True).print_json(json.dumps([asdict(one) for one in checks], default=str))
