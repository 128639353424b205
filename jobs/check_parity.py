"""spark-submit entry point of the comparison: one window, the hourly table and the streams.

    spark-submit … jobs/check_parity.py --start 2015-01-01T11Z --end 2015-01-01T12Z --mode outbox

Exit code 0 when all modes agree, 1 when one does not, 2 with a line that says why when one could
not be compared, 3 when a stream has not passed the hourly run's cut.
"""

import sys

from lockstep.errors import exit_on_error
from lockstep.parity.job import main

if __name__ == "__main__":
    with exit_on_error():
        sys.exit(main())
