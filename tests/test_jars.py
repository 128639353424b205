"""The JVM parts: the committed lock, the class paths, and the set-up that survives what happens.

Ivy is replaced by a small stand-in where `java` is looked up; it serves a folder as if that were
the registry, with a cache like Ivy's. The real one is run by `make setup` itself.
"""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lockstep.jars import PARTS, classpath, read_lock
from lockstep.jars.errors import JarsIncompleteError
from lockstep.jars.install import ATTEMPTS, MANIFEST, install, resolve
from lockstep.jars.lock import LockedJar, locked_as_found, write_lock
from lockstep.jars.progress import Progress
from lockstep.settings import Settings
from rich.console import Console

STAND_IN = """#!{python}
import pathlib, shutil, sys, time
registry = pathlib.Path({registry!r})
arguments = dict(zip(sys.argv, sys.argv[1:]))
into = pathlib.Path(arguments["-retrieve"].split("/[conf]")[0])
cache = pathlib.Path(arguments["-cache"])
with (registry / "starts").open("a") as starts:
    starts.write("x")
if (registry / "offline").exists():
    print("  module not found: org.example#one;1.0", flush=True)
    sys.exit(1)
for jar in sorted(registry.glob("*/*.jar")):
    cached = cache / "org.example" / jar.stem / "jars" / jar.name
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(jar, str(cached) + ".part")
        pathlib.Path(str(cached) + ".part").rename(cached)
        print("[SUCCESSFUL ] " + jar.name, flush=True)  # its reader is killed after "downloads"
        with (registry / "downloads").open("a") as downloads:
            downloads.write(jar.name + chr(10))
        if (registry / "slow").exists():
            time.sleep(60)
    target = into / jar.parent.name / jar.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(cached, target)
"""


class Registry:
    """A folder of part/file served by the stand-in, and the lock made from it."""

    def __init__(self, root: Path) -> None:
        self.root = root / "registry"
        self.lock_file = root / "jars.sha256"
        for part in PARTS:
            for number in (1, 2):
                file = self.root / part / f"{part}-{number}.jar"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(f"{part} {number} ".encode() * 500)
        self.lock()

    def lock(self) -> list[LockedJar]:
        jars = [locked_as_found(f.parent.name, f) for f in self.root.glob("*/*.jar")]
        write_lock(jars, self.lock_file)
        return read_lock(self.lock_file)

    def count(self, what: str) -> int:
        """How often java was started ("starts"), or a jar downloaded ("downloads")."""
        file = self.root / what
        if not file.exists():
            return 0
        text = file.read_text()
        return len(text.splitlines()) if what == "downloads" else len(text)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    made = Registry(tmp_path)
    java = tmp_path / "java-home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(STAND_IN.format(python=sys.executable, registry=str(made.root)))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java-home"))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "jars"


def placed(registry: Registry, folder: Path) -> int:
    """Run the set-up once; how many jars it put in place."""
    return install(folder, Progress(Console(quiet=True)), registry.lock_file)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the parts, by part/file."""
    return {f"{p}/{f.name}": f.read_bytes() for p in PARTS for f in (folder / p).glob("*")}


def test_an_empty_folder_gets_exactly_the_locked_jars(registry: Registry, folder: Path) -> None:
    assert placed(registry, folder) == 6
    assert contents(folder) == contents(registry.root)
    assert not (folder / "ivy-retrieved").exists()


def test_a_complete_folder_starts_no_java(registry: Registry, folder: Path) -> None:
    placed(registry, folder)
    assert placed(registry, folder) == 0
    assert registry.count("starts") == 1


def test_a_folder_filled_by_hand_is_accepted_without_java(registry: Registry, folder: Path) -> None:
    for path, data in contents(registry.root).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    assert placed(registry, folder) == 0
    assert registry.count("starts") == 0


def test_a_missing_jar_comes_back_from_the_cache(registry: Registry, folder: Path) -> None:
    placed(registry, folder)
    (folder / "kafka" / "kafka-1.jar").unlink()
    assert placed(registry, folder) == 1
    assert contents(folder) == contents(registry.root)
    assert registry.count("downloads") == 6


def test_a_corrupted_jar_of_the_same_size_is_replaced(registry: Registry, folder: Path) -> None:
    placed(registry, folder)
    jar = folder / "spark" / "spark-2.jar"
    jar.write_bytes(jar.read_bytes()[:-1] + b"!")
    assert placed(registry, folder) == 1
    assert contents(folder) == contents(registry.root)


def test_a_touched_jar_is_hashed_and_kept(registry: Registry, folder: Path) -> None:
    placed(registry, folder)
    os.utime(folder / "spark" / "spark-2.jar")
    assert placed(registry, folder) == 0
    assert registry.count("starts") == 1


def test_a_file_that_is_not_locked_is_removed(registry: Registry, folder: Path) -> None:
    placed(registry, folder)
    (folder / "spark" / "jackson-core-2.13.5.jar").write_bytes(b"older than Spark's own")
    placed(registry, folder)
    assert contents(folder) == contents(registry.root)


def test_a_damaged_stamp_only_costs_hashing(registry: Registry, folder: Path) -> None:
    placed(registry, folder)
    (folder / "verified.json").write_text('{"spark/spark-1')
    assert placed(registry, folder) == 0
    assert registry.count("starts") == 1


def test_a_jar_damaged_in_the_cache_is_downloaded_again(registry: Registry, folder: Path) -> None:
    placed(registry, folder)
    cached = next((folder / "ivy-cache").rglob("connect-1.jar"))
    cached.write_bytes(b"damaged")
    (folder / "connect" / "connect-1.jar").unlink()
    assert placed(registry, folder) == 1
    assert contents(folder) == contents(registry.root)


def test_a_jar_with_another_hash_than_locked_is_never_used(
    registry: Registry, folder: Path
) -> None:
    (registry.root / "spark" / "spark-1.jar").write_bytes(b"replaced upstream")
    with pytest.raises(JarsIncompleteError, match=r"spark/spark-1\.jar has SHA-256 \w{64} instead"):
        placed(registry, folder)
    assert not (folder / "spark" / "spark-1.jar").exists()
    assert registry.count("starts") == ATTEMPTS


def test_a_failed_download_says_why_and_how_often_it_was_tried(
    registry: Registry, folder: Path
) -> None:
    (registry.root / "offline").touch()
    with pytest.raises(JarsIncompleteError, match=r"module not found: org\.example#one;1\.0"):
        placed(registry, folder)
    assert registry.count("starts") == ATTEMPTS


def test_a_killed_download_goes_on_where_it_stopped(registry: Registry, folder: Path) -> None:
    (registry.root / "slow").touch()
    setup = started_setup(registry, folder)
    wait_until(lambda: registry.count("downloads") == 1)
    os.killpg(setup.pid, signal.SIGKILL)
    setup.wait(timeout=10)
    (registry.root / "slow").unlink()
    assert placed(registry, folder) == 6
    assert contents(folder) == contents(registry.root)
    assert registry.count("downloads") == 6


def test_a_set_up_waits_for_an_ivy_that_outlived_its_own(registry: Registry, folder: Path) -> None:
    (registry.root / "slow").touch()
    setup = started_setup(registry, folder)
    wait_until(lambda: registry.count("downloads") == 1)
    setup.kill()
    setup.wait(timeout=10)
    second = started_setup(registry, folder)
    try:
        assert "another set-up is filling" in second.stdout.readline()
        assert registry.count("starts") == 1
    finally:
        os.killpg(setup.pid, signal.SIGKILL)
        os.killpg(second.pid, signal.SIGKILL)
        second.communicate(timeout=10)


def started_setup(registry: Registry, folder: Path) -> subprocess.Popen:
    """The set-up in a process group of its own."""
    code = (
        "import sys, pathlib; from rich.console import Console;"
        "from lockstep.jars.install import install; from lockstep.jars.progress import Progress;"
        "install(pathlib.Path(sys.argv[1]), Progress(Console()), pathlib.Path(sys.argv[2]))"
    )
    return subprocess.Popen(
        [sys.executable, "-u", "-c", code, folder, registry.lock_file],
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_until(condition, seconds: float = 20) -> None:
    """Poll a condition up to a deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still not so after {seconds} s"
        time.sleep(0.02)


def test_without_java_it_says_so(
    registry: Registry, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(JarsIncompleteError, match=r"no java in JAVA_HOME=.*nowhere"):
        placed(registry, folder)


def test_a_new_lock_holds_what_the_registry_serves(registry: Registry, folder: Path) -> None:
    locked = read_lock(registry.lock_file)
    assert sorted(resolve(folder, Progress(Console(quiet=True))), key=lambda jar: jar.path) == (
        sorted(locked, key=lambda jar: jar.path)
    )
    assert contents(folder) == {}


def test_classpath_is_the_locked_jars_in_the_locks_order(registry: Registry, folder: Path) -> None:
    placed(registry, folder)
    settings = Settings(jars_dir=folder)
    found = classpath(settings, "kafka", registry.lock_file)
    assert found == [folder / "kafka" / "kafka-1.jar", folder / "kafka" / "kafka-2.jar"]


@pytest.mark.parametrize("damage", ["remove", "truncate"])
def test_classpath_names_the_jar_it_cannot_use(
    registry: Registry, folder: Path, damage: str
) -> None:
    placed(registry, folder)
    jar = folder / "kafka" / "kafka-2.jar"
    if damage == "remove":
        jar.unlink()
    else:
        os.truncate(jar, 10)
    with pytest.raises(JarsIncompleteError, match=r"1 of 2 kafka jars.*kafka-2\.jar.*make setup"):
        classpath(Settings(jars_dir=folder), "kafka", registry.lock_file)
    assert len(classpath(Settings(jars_dir=folder), "spark", registry.lock_file)) == 2


def test_classpath_knows_its_parts() -> None:
    with pytest.raises(ValueError, match="flink"):
        classpath(Settings(), "flink")


def test_a_damaged_lock_is_named_with_its_line(tmp_path: Path) -> None:
    lock = tmp_path / "jars.sha256"
    lock.write_text("0123abcd spark/one.jar\n")
    with pytest.raises(JarsIncompleteError, match=r"jars\.sha256 is damaged: '0123abcd spark"):
        read_lock(lock)


def test_class_paths_are_found_without_importing_pyspark_or_airflow() -> None:
    code = (
        "import sys; from lockstep.jars import classpath, read_lock; read_lock();"
        "print([m for m in ('pyspark', 'airflow', 'rich', 'tenacity') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_committed_lock_holds_every_version_of_the_manifest() -> None:
    locked = {jar.path for jar in read_lock()}
    dependencies = ElementTree.parse(MANIFEST).getroot().findall("dependencies/dependency")  # noqa: S314
    assert len(dependencies) > 10
    for dependency in dependencies:
        name = f"{dependency.get('name')}-{dependency.get('rev')}.jar"
        for part in dependency.get("conf").split("->")[0].split(","):
            assert f"{part}/{name}" in locked, f"run `make jars-lock`: {part}/{name} is not locked"


def test_nothing_that_spark_ships_is_put_before_its_own() -> None:
    """An older jackson, parquet or hadoop on the class path breaks Spark in ways hard to see."""
    ours = [jar.name for jar in read_lock() if jar.part == "spark"]
    assert "delta-storage" in set(map(module_of, ours))
    assert put_before(shipped_by_spark(), ours) == set()


def test_a_jar_that_would_be_put_before_spark_s_own_is_found() -> None:
    ours = ["delta-storage-4.4.0.jar", "jackson-core-2.13.5.jar"]
    assert put_before(shipped_by_spark(), ours) == {"jackson-core"}


def shipped_by_spark() -> list[str]:
    """The jars of the pyspark that is installed, wherever that is."""
    folder = Path(importlib.util.find_spec("pyspark").origin).parent / "jars"
    names = [jar.name for jar in folder.glob("*.jar")]
    assert len(names) > 100, f"Spark's own jars are not in {folder}"
    return names


def put_before(shipped: Iterable[str], ours: Iterable[str]) -> set[str]:
    """The modules of ours that Spark has itself: the class path has ours first."""
    return set(map(module_of, shipped)) & set(map(module_of, ours))


def test_each_part_holds_one_version_of_a_module() -> None:
    for part in PARTS:
        modules = [module_of(jar.name) for jar in read_lock() if jar.part == part]
        assert len(modules) == len(set(modules))


def module_of(file_name: str) -> str:
    """jackson-core-2.21.2.jar: jackson-core."""
    return re.sub(r"-\d[\w.-]*\.jar$", "", file_name)
