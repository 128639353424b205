"""Flink as a process: started from a private job file, watched until all its tasks run, ended."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from lockstep.errors import LockstepError
from lockstep.host import process
from lockstep.host.files import bounded_log, last_lines, make_private_folder, write_private
from lockstep.host.process import Launch, ProcessRecord
from lockstep.jvm.java import java_environment

from lockstep_tools.bench.peer.install import Flink
from lockstep_tools.bench.peer.job import FlinkJob
from lockstep_tools.errors import MeasurementError

FOLDER = "flink"
"""In the home: a folder for each job."""
SCRIPT = Path(__file__).with_name("flink_job.py")
START_SECONDS_MAX = 180.0
STOP_SECONDS_MAX = 10.0
POLL_SECONDS = 0.05
ANSWER_SECONDS_MAX = 5.0
LOG_LINES = 200
RUNNING = "RUNNING"
LOGGING = """\
# Written by `lockstep bench flink`: warnings to standard output, which is the job's log file.
rootLogger.level = WARN
# Flink to Kafka complains of a metric's name twice a checkpoint.
logger.metrics.name = org.apache.flink.metrics.MetricGroup
logger.metrics.level = ERROR
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS}{UTC} %-5p [%t] %c{1}: %m%n
"""


@dataclass(frozen=True)
class RunningJob:
    """start_seconds: from the start of the process until all tasks ran. ready_ns: when that was."""

    record: ProcessRecord
    start_seconds: float
    ready_ns: int

    @property
    def is_alive(self) -> bool:
        return self.record.process() is not None


@contextmanager
def running(
    flink: Flink, job: FlinkJob, home: Path, rest_port: int, memory: str
) -> Iterator[RunningJob]:
    """The job in a process of its own, all its tasks running; it is ended with the block.

    home: whose log it writes to. memory: the most that Java's heap takes, such as 1g.
    Raises MeasurementError, with the end of its log, when it does not come to run.
    """
    launch = _launch(flink, job, home, memory)
    began = time.monotonic()
    record = _spawned(launch)
    try:
        _wait_until_it_runs(record, rest_port, launch.log)
        yield RunningJob(record, time.monotonic() - began, time.time_ns())
    finally:
        process.stop(record, signal.SIGTERM, STOP_SECONDS_MAX)


def _launch(flink: Flink, job: FlinkJob, home: Path, memory: str) -> Launch:
    folder = make_private_folder(home / FOLDER / job.name)
    job_file, logging = folder / "job.json", folder / "log4j.properties"
    write_private(job_file, job.text())
    write_private(logging, LOGGING)
    return Launch(
        # Isolated (-I): a module next to the script would be taken for one of Flink's Python.
        command=[str(flink.python), "-I", str(SCRIPT), str(job_file), str(os.getpid())],
        log=bounded_log(home, job.name),
        environment={
            **java_environment(),
            "TMPDIR": str(folder),
            "FLINK_LOG_DIR": str(folder),
            "LOG4J_PROPERTIES": str(logging),
            "JAVA_TOOL_OPTIONS": f'-Xmx{memory} "-Djava.io.tmpdir={folder}"',
            # Else PyFlink serves Python functions, of which the job has none, on all addresses.
            "_python_worker_execution_mode": "process",
        },
        working_folder=folder,
    )


def _spawned(launch: Launch) -> ProcessRecord:
    try:
        return process.spawn("Flink", launch)
    except LockstepError as error:
        raise MeasurementError(str(error)) from error


def _wait_until_it_runs(record: ProcessRecord, rest_port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    with httpx.Client(
        base_url=f"http://127.0.0.1:{rest_port}", timeout=ANSWER_SECONDS_MAX, trust_env=False
    ) as client:
        while not _runs(client):
            if record.process() is None:
                raise MeasurementError(f"Flink's job did not start: {why(log)}")
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"Flink's job does not run after {START_SECONDS_MAX:.0f} s: {why(log)}"
                )
            time.sleep(POLL_SECONDS)


def _runs(client: httpx.Client) -> bool:
    """Whether there is a job and all its tasks run; not before Flink answers."""
    try:
        jobs = client.get("/jobs").raise_for_status().json()["jobs"]
        if not jobs:
            return False
        job = client.get(f"/jobs/{jobs[0]['id']}").raise_for_status().json()
    except httpx.HTTPError:
        return False
    return is_running(job)


def is_running(job: dict) -> bool:
    """By what Flink's REST interface says of a job: whether each of its tasks runs."""
    tasks = job.get("vertices", [])
    running_tasks = [task["tasks"].get(RUNNING, 0) == task["parallelism"] for task in tasks]
    return bool(tasks) and job.get("state") == RUNNING and all(running_tasks)


def why(log: Path) -> str:
    """The cause of a failure by a job's log: the last that Java names, else its last line."""
    lines = [line.strip() for line in last_lines(log, LOG_LINES) if line.strip()]
    causes = [line for line in lines if line.startswith(("Caused by:", ": org.", ": java."))]
    found = (causes or lines or ["its log is empty"])[-1]
    return f"{found.lstrip(': ')} (the whole log is {log})"
