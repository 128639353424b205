"""Checks one window of the hourly table and builds its Data Docs; starts no JVM.

    python jobs/check_quality.py --start 2015-01-01T11:00Z --end 2015-01-01T12:00Z

Exit code 0 when no check failed (warnings are printed), 1 when one did, 2 with a line that says
why when the window could not be checked.
"""

import sys

from lockstep.errors import exit_on_error
from lockstep.quality.job import main

if __name__ == "__main__":
    with exit_on_error():
        sys.exit(main())
