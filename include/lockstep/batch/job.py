"""What jobs/run_window.py does: the hourly run with the arguments of a command line."""

import argparse

from lockstep.batch.command import run_named
from lockstep.model.modes import ReadMode
from lockstep.settings import Settings


def main() -> None:
    """Of the pipeline that is worked for. Raises LockstepError as run_named does."""
    parser = argparse.ArgumentParser(description="Make the rows of one window.")
    parser.add_argument("--start", default="", help="begin of the window, ISO 8601")
    parser.add_argument("--end", default="", help="end of the window, not part of it")
    parser.add_argument("--read", type=ReadMode, choices=list(ReadMode), default=ReadMode.VIEW)
    arguments = parser.parse_args()
    run_named(Settings.load().names.pipeline, arguments.start, arguments.end, arguments.read)
