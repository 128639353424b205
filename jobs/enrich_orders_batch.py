"""spark-submit entry point of the hourly run: enrich the orders of one window.

    spark-submit … jobs/enrich_orders_batch.py --start 2015-01-01T11:00Z --end 2015-01-01T12:00Z

Exit code 0 when the window is in the table; else 2, a line that says why, and an unchanged table.
"""

import argparse

from lockstep.batch.command import enrich_window
from lockstep.errors import exit_on_error
from lockstep.model.modes import ReadMode


def main() -> None:
    parser = argparse.ArgumentParser(description="Enrich the orders of one window.")
    parser.add_argument("--start", required=True, help="begin of the window, ISO 8601")
    parser.add_argument("--end", required=True, help="end of the window, not part of it")
    parser.add_argument("--read", type=ReadMode, choices=list(ReadMode), default=ReadMode.VIEW)
    arguments = parser.parse_args()
    enrich_window(arguments.start, arguments.end, arguments.read)


if __name__ == "__main__":
    with exit_on_error():
        main()
