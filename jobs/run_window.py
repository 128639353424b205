"""spark-submit entry point of the hourly run: make the rows of one window.

    spark-submit … jobs/run_window.py --start 2015-01-01T11:00Z --end 2015-01-01T12:00Z

The pipeline is that of LOCKSTEP_PIPELINE, or the project's choice; one without a time has no
window, and its table is replaced whole. Exit code 0 when the rows are in the table; else 2, a line
that says why, and an unchanged table.
"""

import argparse

from lockstep.batch.command import run_chosen
from lockstep.errors import exit_on_error
from lockstep.model.modes import ReadMode


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the rows of one window.")
    parser.add_argument("--start", default="", help="begin of the window, ISO 8601")
    parser.add_argument("--end", default="", help="end of the window, not part of it")
    parser.add_argument("--read", type=ReadMode, choices=list(ReadMode), default=ReadMode.VIEW)
    arguments = parser.parse_args()
    run_chosen(arguments.start, arguments.end, arguments.read)


if __name__ == "__main__":
    with exit_on_error():
        main()
