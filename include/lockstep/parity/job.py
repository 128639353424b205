"""What jobs/check_parity.py does: the comparison with the arguments of a command line."""

import argparse

from lockstep.model.modes import StreamMode
from lockstep.parity.command import check


def main() -> int:
    """The exit code, and errors, of the comparison: command.check."""
    parser = argparse.ArgumentParser(description="Compare a window's rows with the streams'.")
    parser.add_argument("--start", required=True, help="begin of the window, ISO 8601")
    parser.add_argument("--end", required=True, help="end of the window, not part of it")
    parser.add_argument(
        "--mode", type=StreamMode, choices=list(StreamMode), action="append", default=[]
    )
    parser.add_argument("--task-log", default="", help="page of the Airflow task, for the ledger")
    arguments = parser.parse_args()
    return check(arguments.start, arguments.end, arguments.mode, task_log=arguments.task_log)
