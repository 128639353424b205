"""Flink's jobs, its installation and its process: what they say, and what is refused."""

import sys
from pathlib import Path

import pytest
from lockstep.accounts import KafkaUser
from lockstep.errors import ServiceError
from lockstep.jars import ivy
from lockstep.jars.lock import LockedJar, read_lock, sha256_of
from lockstep.settings import Settings
from lockstep_tools.bench.peer import install, job, process
from lockstep_tools.bench.peer.install import Flink
from lockstep_tools.bench.peer.job import FlinkJob
from lockstep_tools.errors import MeasurementError

PASSWORD = 'it\'s "quoted"'
SETTINGS = Settings(kafka_password=PASSWORD, kafka_reader_password=PASSWORD)


def test_both_jobs_read_committed_changes_from_the_start_as_the_reader() -> None:
    table = job.paimon_table(Path("/home"), "t")
    for made in (job.paimon_job(SETTINGS, {}, table), job.kafka_job(SETTINGS, {}, "t")):
        source, insert = made.statements[0], made.statements[-1]
        assert "'properties.isolation.level' = 'read_committed'" in source
        assert "'scan.startup.mode' = 'earliest-offset'" in source
        assert f'username="{KafkaUser.READER}"' in source
        assert "'org.apache.flink.kafka.shaded.org.apache.kafka." in source
        assert insert.startswith("INSERT INTO ")
        assert "'orders_outbox'" in insert


def test_a_password_is_quoted_for_jaas_and_for_sql() -> None:
    source = job.kafka_job(SETTINGS, {}, "t").statements[0]
    assert 'password="it\'\'s \\"quoted\\""' in source


def test_a_topic_is_written_exactly_once_and_a_table_s_snapshots_stay() -> None:
    assert "'exactly-once'" in job.kafka_job(SETTINGS, {}, "t").statements[1]
    made = job.paimon_job(SETTINGS, {}, job.paimon_table(Path("/home"), "t"))
    assert "'warehouse' = 'file:///home'" in made.statements[1]
    assert "'snapshot.time-retained' = '24 h'" in made.statements[2]


def test_the_cluster_listens_on_loopback_and_a_failed_job_ends() -> None:
    found = job.configuration(Path("/home"), [Path("/a.jar"), Path("/b.jar")], 1234)
    assert {found[name] for name in found if name.endswith("-host")} == {"127.0.0.1"}
    assert found["rest.bind-address"] == "127.0.0.1"
    assert found["execution.checkpointing.interval"] == "100 ms"
    assert found["pipeline.jars"] == "file:///a.jar;file:///b.jar"
    assert found["restart-strategy.type"] == "none"


@pytest.mark.parametrize(
    ("job_says", "runs"),
    [
        ({"state": "RUNNING", "vertices": [{"parallelism": 2, "tasks": {"RUNNING": 2}}]}, True),
        ({"state": "RUNNING", "vertices": [{"parallelism": 2, "tasks": {"RUNNING": 1}}]}, False),
        ({"state": "CREATED", "vertices": [{"parallelism": 1, "tasks": {"RUNNING": 1}}]}, False),
        ({"state": "RUNNING", "vertices": []}, False),
    ],
)
def test_a_job_runs_when_each_of_its_tasks_does(job_says: dict, runs: bool) -> None:
    assert process.is_running(job_says) is runs


def test_a_failure_is_the_last_cause_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "flink.log"
    log.write_text("a\nCaused by: first\n\tat x\nCaused by: second\n\tat y\n", encoding="utf-8")
    assert process.why(log).startswith("Caused by: second (")
    assert process.why(tmp_path / "none").startswith("its log is empty")


def test_a_job_that_does_not_start_is_an_error_with_its_reason(tmp_path: Path) -> None:
    here = Flink(Path(sys.executable), [])  # a Python without Flink
    with (
        pytest.raises(MeasurementError, match="No module named 'pyflink'"),
        process.running(here, FlinkJob("a_job", {}, ["SELECT 1"]), tmp_path, 1, "1g"),
    ):
        pytest.fail("it runs")
    assert (tmp_path / "flink" / "a_job" / "job.json").stat().st_mode & 0o077 == 0


def test_a_python_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    gone = Flink(tmp_path / "python", [])
    with (
        pytest.raises(MeasurementError, match="cannot run"),
        process.running(gone, FlinkJob("a_job", {}, []), tmp_path, 1, "1g"),
    ):
        pytest.fail("it runs")


def test_without_java_nothing_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java() -> int:
        raise ServiceError("there is no Java")

    monkeypatch.setattr(install, "java_version", no_java)
    with pytest.raises(MeasurementError, match="there is no Java"):
        install.install(tmp_path, print)


def test_without_a_network_it_says_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "import sys; sys.exit('ERROR: no route to host')"
    with pytest.raises(MeasurementError, match=r"no route to host; check the network"):
        install._run([sys.executable, "-c", command], "installing PyFlink")

    def no_network(*_: object) -> None:
        raise ivy.DownloadError("not found")

    monkeypatch.setattr(install, "java_version", lambda: 17)
    monkeypatch.setattr(install, "_environment", lambda *_: Path("python"))
    monkeypatch.setattr(ivy, "retrieve", no_network)
    with pytest.raises(MeasurementError, match=r"cannot be installed in .*: not found"):
        install.install(tmp_path, print)


def test_a_jar_with_other_contents_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "flink" / "a.jar"

    def damaged(*_: object) -> None:
        file.parent.mkdir()
        file.write_bytes(b"other")

    monkeypatch.setattr(ivy, "retrieve", damaged)
    monkeypatch.setattr(install, "read_lock", lambda _: [LockedJar("flink", "a.jar", 5, "0" * 64)])
    with pytest.raises(MeasurementError, match=r"flink/a\.jar has SHA-256"):
        install._jars(tmp_path, 0, print)
    monkeypatch.setattr(
        install, "read_lock", lambda _: [LockedJar("flink", "a.jar", 5, sha256_of(file))]
    )
    assert install._jars(tmp_path, 0, print) == [file]


def test_every_jar_and_every_package_is_pinned() -> None:
    assert {jar.part for jar in read_lock(install.LOCK_FILE)} == {"flink"}
    assert all(len(jar.sha256) == 64 for jar in read_lock(install.LOCK_FILE))
    text = install.REQUIREMENTS.read_text(encoding="utf-8")
    assert "apache-flink==2.2.1 " in text
    assert text.count("==") <= text.count("--hash=sha256:")
