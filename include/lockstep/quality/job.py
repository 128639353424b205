"""What jobs/check_quality.py does: the checks of a window with the arguments of a command line."""

import argparse

from lockstep.quality.command import check_hourly


def main() -> int:
    """The exit code, and errors, of the checks: command.check_hourly."""
    parser = argparse.ArgumentParser(description="Check the quality of one window's rows.")
    parser.add_argument("--start", required=True, help="begin of the window, ISO 8601")
    parser.add_argument("--end", required=True, help="end of the window, not part of it")
    arguments = parser.parse_args()
    return check_hourly(arguments.start, arguments.end)
