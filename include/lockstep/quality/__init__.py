"""The quality checks: Great Expectations suites on each window, and their pages.

Of the hourly table's windows, and of what a comparison read of a stream, with its verdict. A check
reads one window through delta-rs, judges it, and records the result below HOME/quality. Nothing
here writes to the lakehouse or the database, and nothing here starts a JVM.
"""

from lockstep.quality.check import check_window
from lockstep.quality.report import CheckResult, QualityReport
from lockstep.quality.stream_check import check_stream

__all__ = ["CheckResult", "QualityReport", "check_stream", "check_window"]
