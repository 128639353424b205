"""spark-submit entry point of the hourly run: make the rows of one window.

    spark-submit … jobs/run_window.py --start 2015-01-01T11:00Z --end 2015-01-01T12:00Z

The pipeline is that of LOCKSTEP_PIPELINE, or the project's choice; one without a time has no
window, and its table is replaced whole. Exit code 0 when the rows are in the table; else 2, a line
that says why, and an unchanged table.
"""

from lockstep.batch.job import main
from lockstep.errors import exit_on_error

if __name__ == "__main__":
    with exit_on_error():
        main()
