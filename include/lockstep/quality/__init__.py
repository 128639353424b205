"""The quality checks of the hourly table: a Great Expectations suite on each window, and its pages.

A check reads one window through delta-rs, judges it, and records the result below HOME/quality.
Nothing here writes to the lakehouse or the database, and nothing here starts a JVM.
"""

from lockstep.quality.check import check_window
from lockstep.quality.report import CheckResult, QualityReport

__all__ = ["CheckResult", "QualityReport", "check_window"]
