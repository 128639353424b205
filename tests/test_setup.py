"""`make`: prerequisites are checked with clear words, and each step is done once.

The real script and Makefile run on a small project of their own (two empty lists of packages and
a stand-in for the JVM parts), so nothing is downloaded.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import PROJECT_DIR

pytestmark = pytest.mark.slow

COMMANDS = (
    "sh",
    "make",
    "cat",
    "cksum",
    "grep",
    "sed",
    "head",
    "tail",
    "tee",
    "awk",
    "uname",
    "rm",
)
PACKAGES = {".": "lockstep", "examples/pizzeria": "lockstep_pizzeria", "tools": "lockstep_tools"}
"""The project's own packages by their folder: all are installed as editable ones."""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "{name}"
version = "{version}"
"""
BACKEND = """
import pathlib, tomllib, zipfile
NAME = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]["name"]
FILES = {
    f"{NAME}.pth": str(pathlib.Path("include").resolve()),
    f"{NAME}-1.dist-info/METADATA": f"Metadata-Version: 2.1\\nName: {NAME}\\nVersion: 1\\n",
    f"{NAME}-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\n",
    f"{NAME}-1.dist-info/RECORD": "",
}
def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    wheel_name = f"{NAME}-1-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, wheel_name), "w") as wheel:
        for path, text in FILES.items():
            wheel.writestr(path, text)
    return wheel_name
"""


class Project:
    """A project folder with the real set-up in it, and a PATH that holds only what is put there."""

    def __init__(self, root: Path) -> None:
        self.root = root / "a project"
        self.commands = root / "bin"
        self.commands.mkdir(parents=True)
        for name in (*COMMANDS, "dirname"):
            (self.commands / name).symlink_to(shutil.which(name))
        shutil.copytree(PROJECT_DIR / "include" / "setup", self.root / "include" / "setup")
        shutil.copy(PROJECT_DIR / "Makefile", self.root)
        package = self.root / "include" / "lockstep"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "jars.py").write_text("print('  jars      asked')")
        (package / "streams").mkdir()
        (package / "streams" / "class_archive.py").write_text("print('  classes   asked')")
        for name in ("requirements.txt", "requirements-dev.txt"):
            (self.root / name).write_text("# nothing\n")
        self.declare_version("1")

    def declare_version(self, version: str) -> None:
        for folder, name in PACKAGES.items():
            package = self.root / folder
            package.mkdir(parents=True, exist_ok=True)
            text = PYPROJECT.format(name=name, version=version)
            (package / "pyproject.toml").write_text(text)
            (package / "backend.py").write_text(BACKEND)

    def command(self, name: str, script: str) -> Path:
        """Put a shell script on PATH."""
        file = self.commands / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return file

    def with_python(self, version: str = "") -> None:
        """A python3.11 that works, or a python3 that says another version."""
        if version:
            self.command("python3", f"echo {version}")
        else:
            self.command("python3.11", f'exec "{Path(sys.executable).resolve()}" "$@"')

    def with_java(self, version: str = "17.0.15") -> None:
        self.command("java", f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")

    def setup(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `make setup` with this PATH and nothing else in the environment."""
        return subprocess.run(
            [self.commands / "make", "setup"],
            cwd=self.root,
            env={"PATH": str(self.commands), "HOME": str(self.root), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def steps_done(self) -> list[tuple[str, int]]:
        """Each step's stamp and when it was written."""
        stamps = sorted((self.root / ".venv").glob(".made-*"))
        return [
            (stamp.name, stamp.stat().st_mtime_ns) for stamp in stamps if "venv" not in stamp.name
        ]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project after one set-up, under an environment meant to mislead it."""
    made = Project(tmp_path_factory.mktemp("finished"))
    made.with_python()
    made.with_java()
    misleading = {"PIP_USER": "1", "PIP_TARGET": "/nowhere", "VIRTUAL_ENV": "/nowhere"}
    run = made.setup(**misleading, PYTHONHOME="/nowhere", PIP_REQUIRE_HASHES="1")
    assert run.returncode == 0, run.stdout + run.stderr
    return made


def test_an_old_python_is_named_with_its_version_and_the_way_out(project: Project) -> None:
    project.with_java()
    project.with_python("3.9.2")
    run = project.setup()
    assert run.returncode != 0
    assert "error: Python 3.11 is needed" in run.stderr
    assert f"python3.11: not found; python3: 3.9.2 ({project.commands}/python3)" in run.stderr
    assert "apt-get install python3.11" in run.stderr
    assert not (project.root / ".venv").exists()


def test_a_python_chosen_by_hand_is_the_only_one_looked_at(project: Project) -> None:
    project.with_java()
    project.with_python()
    chosen = project.command("my-python", "echo 3.12.1")
    run = project.setup(PYTHON=str(chosen))
    assert run.returncode != 0
    assert f"{chosen}: 3.12.1" in run.stderr
    assert "python3.11: " not in run.stderr


def test_a_python_that_does_not_run_is_not_taken(project: Project) -> None:
    """As pyenv's stand-ins when the version is not chosen."""
    project.with_java()
    project.command("python3.11", "exit 127")
    assert "python3.11: does not run" in project.setup().stderr


def test_no_java_is_said_before_anything_is_made(project: Project) -> None:
    project.with_python()
    run = project.setup()
    assert run.returncode != 0
    assert "error: Java 17 or 21 is needed" in run.stderr
    assert "found: none in PATH, and JAVA_HOME is not set" in run.stderr
    assert not (project.root / ".venv").exists()


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "22", "unknown"])
def test_another_java_is_named_with_its_version_and_place(project: Project, version: str) -> None:
    project.with_python()
    project.with_java(version)
    run = project.setup()
    assert run.returncode != 0
    assert f"found: Java {version}, {project.commands}/java (PATH" in run.stderr


def test_java_home_goes_before_path(project: Project, tmp_path: Path) -> None:
    project.with_python()
    project.with_java("17.0.15")
    (tmp_path / "jdk-11" / "bin").mkdir(parents=True)
    project.with_java("11.0.21")
    shutil.move(project.commands / "java", tmp_path / "jdk-11" / "bin" / "java")
    project.with_java("17.0.15")
    run = project.setup(JAVA_HOME=str(tmp_path / "jdk-11"))
    assert run.returncode != 0
    assert f"Java 11.0.21, {tmp_path}/jdk-11/bin/java (JAVA_HOME=" in run.stderr


def test_a_first_set_up_makes_everything_inside_the_project(finished: Project) -> None:
    where = [finished.root / ".venv/bin/python", "-c", "import lockstep; print(lockstep.__file__)"]
    found = subprocess.run(where, cwd="/", capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(finished.root / "include" / "lockstep" / "__init__.py")
    assert [name for name, _ in finished.steps_done()] == [".made-lockstep", ".made-packages"]


def test_a_second_set_up_only_asks_for_the_jars(finished: Project) -> None:
    before = finished.steps_done()
    run = finished.setup()
    assert run.returncode == 0
    assert run.stdout.endswith("  jars      asked\n  classes   asked\n")
    assert finished.steps_done() == before


def test_a_finished_set_up_needs_no_python_but_its_own(finished: Project) -> None:
    python = finished.commands / "python3.11"
    python.rename(finished.commands / "gone")
    try:
        assert finished.setup().returncode == 0
    finally:
        (finished.commands / "gone").rename(python)


def test_touched_files_change_nothing(finished: Project) -> None:
    before = finished.steps_done()
    os.utime(finished.root / "requirements.txt")
    os.utime(finished.root / "pyproject.toml")
    finished.setup()
    assert finished.steps_done() == before


def test_changed_files_repeat_just_their_step(finished: Project) -> None:
    (lockstep, then), packages = finished.steps_done()
    finished.declare_version("2")
    finished.setup()
    (_, now), packages_now = finished.steps_done()
    assert now > then, lockstep
    assert packages_now == packages


def test_packages_that_cannot_be_installed_end_it_with_pips_reason(finished: Project) -> None:
    requirements = finished.root / "requirements.txt"
    before = requirements.read_text()
    requirements.write_text("./nowhere-1.0.whl --hash=sha256:" + 64 * "0" + "\n")
    try:
        run = finished.setup()
        assert run.returncode != 0
        assert "nowhere-1.0.whl" in run.stderr
        assert "error: set-up is incomplete" in run.stderr
        assert "asked" not in run.stdout
    finally:
        requirements.write_text(before)
    assert finished.setup().returncode == 0


def test_a_virtual_environment_cut_short_is_made_again(finished: Project) -> None:
    """As after a kill while it was made: no stamp yet, and no pip."""
    venv = finished.root / ".venv"
    for stamp in venv.glob(".made-*"):
        stamp.unlink()
    shutil.rmtree(venv / "lib" / "python3.11" / "site-packages" / "pip")
    run = finished.setup()
    assert run.returncode == 0, run.stderr
    assert "making it with" in run.stdout


def test_a_package_cut_short_is_not_taken_for_installed(finished: Project) -> None:
    packages = finished.root / ".venv" / "lib" / "python3.11" / "site-packages"
    (packages / "half-1.0.dist-info").mkdir()
    (packages / "half-1.0.dist-info" / "METADATA").write_text("Name: half\nVersion: 1.0\n")
    (finished.root / ".venv" / ".made-packages").unlink()
    assert finished.setup().returncode == 0
    assert not (packages / "half-1.0.dist-info").exists()


def test_help_is_the_default_and_names_every_goal_within_100_columns() -> None:
    shown = subprocess.run(
        [shutil.which("make"), "-C", PROJECT_DIR, "--no-print-directory"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    makefile = (PROJECT_DIR / "Makefile").read_text(encoding="utf-8")
    goals = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE).group(1).split()
    assert {line.split()[1] for line in shown.splitlines()} == set(goals)
    assert len({re.search(r"[a-z-]+ {2,}", line).end() for line in shown.splitlines()}) == 1
    assert max(map(len, shown.splitlines())) <= 100
