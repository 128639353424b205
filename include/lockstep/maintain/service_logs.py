"""The logs of services and drivers, HOME/logs: cut while those who write them go on."""

from rich.filesize import decimal

from lockstep.host.files import LOG_BYTES_MAX, cut_log, logs_folder
from lockstep.maintain.outcome import Outcome, State
from lockstep.maintain.sizes import size_of
from lockstep.settings import Settings


def cut_service_logs(settings: Settings, *, is_dry_run: bool) -> Outcome:
    """Cut each log that has grown too large to its end, which is kept as `.log.1`."""
    folder = logs_folder(settings.home)
    before = size_of(folder)
    freed = [cut_log(path, is_dry_run=is_dry_run) for path in sorted(folder.glob("*.log"))]
    cut = sum(one > 0 for one in freed)
    note = f"{cut} of {len(freed)} logs above {decimal(LOG_BYTES_MAX)}"
    return Outcome("services' logs", str(folder), State.DONE, before, sum(freed), note)
