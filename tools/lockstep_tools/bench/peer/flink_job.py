"""Runs one Flink job; started by Flink's own Python, so nothing of Lockstep is imported here.

Its arguments are a private file in JSON, and the benchmark's pid. The file has `configuration`, by
option, and `statements`, of which the last is the job. The script ends when the job does, and fails
when that fails. It also ends when the benchmark does, however that ends; its JVM follows.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment

LOOK_SECONDS = 1.0


def end_with(parent: int) -> None:
    """End this process once its parent is another one than `parent`."""
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)


def main(job_file: str, benchmark: str) -> None:
    """Run the job until it ends."""
    threading.Thread(target=end_with, args=(int(benchmark),), daemon=True).start()
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in job["configuration"].items():
        environment.get_config().set(name, value)
    *tables, insert = job["statements"]
    for statement in tables:
        environment.execute_sql(statement)
    environment.execute_sql(insert).wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
