"""The repair as a command: what `lockstep parity repair` does."""

import getpass
import os
from collections.abc import Callable

from rich.console import Console

from lockstep.model.window import Window
from lockstep.repair.plan import plan_repair
from lockstep.repair.report import print_plan
from lockstep.repair.run import repair_window
from lockstep.settings import Settings

DECLINED = 1


def show(start: str, end: str) -> None:
    """Show which rows of [start, end), ISO 8601, changed after the cut. Raises LockstepError."""
    plan = plan_repair(Settings.load(), Window.parse(start, end))
    print_plan(Console(highlight=False), plan)


def repair(start: str, end: str, *, is_approved: Callable[[], bool]) -> int:
    """Show which rows of [start, end), ISO 8601, changed after the cut, and merge them if asked.

    is_approved: asked when there is something to merge and it was shown. Returns the exit code: 0,
    or 1 when it was not approved. Raises LockstepError as plan_repair and repair_window do.
    """
    window = Window.parse(start, end)
    settings = Settings.load()
    console = Console(highlight=False)
    plan = plan_repair(settings, window)
    print_plan(console, plan)
    if not plan.changed:
        return 0
    if not is_approved():
        console.print("nothing was changed")
        return DECLINED
    done = repair_window(settings, window, plan.digests, _user())
    if done is None:
        console.print("they were repaired in the meantime; nothing was changed")
        return 0
    console.print(
        f"{len(done.row_keys):,} rows merged by repair {done.cut.run_id}, at the cut with the "
        f"marker LSN {done.cut.marker_lsn}; `lockstep parity check` compares the window again",
        markup=False,
    )
    return 0


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"  # a container's user may have no name
