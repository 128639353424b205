"""spark-submit entry point of the comparison: one window, the hourly table and the streams.

    spark-submit … jobs/check_parity.py --start 2015-01-01T11Z --end 2015-01-01T12Z --mode outbox

Exit code 0 when all modes agree, 1 when one does not, 2 with a line that says why when one could
not be compared, 3 when a stream has not passed the hourly run's cut.
"""

import argparse
import sys

from lockstep.errors import exit_on_error
from lockstep.model.modes import StreamMode
from lockstep.parity.command import check


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare a window's rows with the streams'.")
    parser.add_argument("--start", required=True, help="begin of the window, ISO 8601")
    parser.add_argument("--end", required=True, help="end of the window, not part of it")
    parser.add_argument(
        "--mode", type=StreamMode, choices=list(StreamMode), action="append", default=[]
    )
    parser.add_argument("--task-log", default="", help="page of the Airflow task, for the ledger")
    arguments = parser.parse_args()
    return check(arguments.start, arguments.end, arguments.mode, task_log=arguments.task_log)


if __name__ == "__main__":
    with exit_on_error():
        sys.exit(main())
