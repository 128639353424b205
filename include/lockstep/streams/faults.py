"""Points at which tests make a driver kill itself, between every two commits of a micro-batch.

LOCKSTEP_FAULT=<mode>:<point> names one; without it a point costs a comparison. The process ends as
SIGKILL ends it: nothing is flushed, closed or released.
"""

import os
import signal
import threading

_FAULT = os.environ.get("LOCKSTEP_FAULT", "")
_here = threading.local()


def in_mode(mode: str) -> None:
    """Say whose micro-batch this thread works on."""
    _here.mode = mode


def reach(point: str) -> None:
    """Die here if this is the point that was named."""
    if _FAULT and f"{getattr(_here, 'mode', '')}:{point}" == _FAULT:
        os.kill(os.getpid(), signal.SIGKILL)
