"""From an empty project to a proven stream, by the command line alone, every name a random word.

The command is that of the wheel, in an environment that has nothing else of this repository.
"""

import atexit
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import psutil
import pytest
from deltalake import DeltaTable
from lockstep.capture.connectors import of_source
from lockstep.capture.reset import remove_capture
from lockstep.new_project.create import FILES
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.project_files import PIPELINES
from lockstep.pipeline.result import RESULT_FILE
from lockstep.settings import Settings

from tests.plant.conftest import PlantProject
from tests.wheel.environments import build_wheel, make_environment

pytestmark = pytest.mark.services
HOUR = ("2026-01-01T11:00Z", "2026-01-01T12:00Z")
AT = "2026-01-01 11:20:00Z"
SECONDS_MAX = 120.0
WAITING = 3
AS_A_NOTEBOOK = """
import ast, json, sys
names = {}
for text in json.loads(sys.argv[1]):
    *before, last = ast.parse(text).body
    if not isinstance(last, ast.Expr):
        before.append(last)
    exec(compile(ast.Module(before, []), "cell", "exec"), names)
    if isinstance(last, ast.Expr):
        print(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
"""


@cache
def lockstep() -> Path:
    """The command of the wheel, installed with the extra that runs jobs and streams; made once."""
    folder = Path(mkdtemp(prefix="lockstep-wheel-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    python = make_environment(build_wheel(folder / "wheel"), folder / "environment", ("spark",))
    return python.with_name("lockstep")


def command(project: PlantProject, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """`lockstep` with these arguments, and its environment."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {
        **kept,
        "LOCKSTEP_PROJECT": str(project.folder),
        "LOCKSTEP_JARS_DIR": str(project.settings.jars_dir),
        "LOCKSTEP_LAKEHOUSE": project.settings.lakehouse_uri,
        "COLUMNS": "100",
    }
    return [str(lockstep()), *arguments], environment


def ran(project: PlantProject, *arguments: str, code: int = 0) -> str:
    """What the command writes to standard output."""
    line, environment = command(project, *arguments)
    done = subprocess.run(
        line, env=environment, check=False, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@contextmanager
def streaming(project: PlantProject) -> Iterator[None]:
    """The stream's driver, for the block."""
    line, environment = command(project, "pipeline", "stream", project.plant.pipeline, "temporal")
    running = subprocess.Popen(line, env=environment, stdout=sys.stderr, stderr=sys.stderr)
    try:
        yield
        running.terminate()
        assert running.wait(SECONDS_MAX) == 0
    finally:
        if running.poll() is None:
            for process in psutil.Process(running.pid).children(recursive=True):
                process.kill()
            running.kill()


def until_rows(project: PlantProject, rows: int) -> None:
    """Until the stream's table has so many."""
    uri = project.settings.table_uri(project.plan.change_log(Mode.TEMPORAL))
    deadline = time.monotonic() + SECONDS_MAX
    while not DeltaTable.is_deltatable(uri) or DeltaTable(uri).count() < rows:
        assert time.monotonic() < deadline, "the rows do not come"
        time.sleep(0.3)


def test_a_drift_is_named_from_source_add_to_compare(
    plant: PlantProject, change_capture: Settings
) -> None:
    names = plant.plant
    shutil.rmtree(plant.folder / "include" / "sources")
    (plant.folder / PIPELINES / names.pipeline / RESULT_FILE).unlink()
    address = f"{change_capture.postgres_host}:{change_capture.postgres_port}"
    url = f"postgres://{names.reader}@{address}/{names.database}"
    schemas = "--schema", "public", "--schema", names.schema
    statements = ran(
        plant, "source", "add", names.source, url, *schemas, "--capture-role", names.capture
    )
    with plant.owner() as administrator:
        administrator.execute(statements)
    assert "result.lock is missing" in ran(plant, "pipeline", "check", names.pipeline)
    ran(plant, "pipeline", "lock", names.pipeline)
    assert "no problem" in ran(plant, "pipeline", "check", names.pipeline)
    plant.execute("INSERT INTO $site VALUES ('B', 'Berlin')")
    plant.execute(
        "INSERT INTO $schema.$sensor VALUES (gen_random_uuid(), 1, 'one', 1.5, 'B'), "
        "(gen_random_uuid(), 2, 'two', 2.5, 'nowhere')"
    )
    reading = (
        f"INSERT INTO $schema.$fact SELECT gen_random_uuid(), $id, 10, '{AT}' FROM $schema.$sensor"
    )
    plant.execute(reading)  # of before change capture
    ran(plant, "source", "capture", names.source)
    try:
        with streaming(plant):
            plant.execute(reading)
            until_rows(plant, 4)
            planted = planted_drift(plant)
            assert ran(plant, "pipeline", "run", names.pipeline, *HOUR).startswith("4 rows")
            shown = compared_when_due(plant, code=0)
            tolerate(plant, "")
            refused = compared_when_due(plant, code=1)
            status = ran(plant, "--pipeline", names.pipeline, "parity", "status")
            read = run_notebook(plant)
    finally:
        remove_capture(plant.settings, of_source(plant.settings, plant.source, ()))

    for text in (shown, refused):
        words = " ".join(text.replace("│", " ").split())
        assert words.count("dimension_drift") >= 2
        assert f"{names.factor} 1.500 → 3.000" in words
        assert f"transaction {planted}" in words
    assert "✗" in status, "the ledger keeps what was found"
    assert max(map(len, shown.splitlines())) <= 100
    assert "dimension_drift" in read
    print(shown)  # noqa: T201 - to look at


def run_notebook(project: PlantProject) -> str:
    """What the new project's notebook shows: the last value of each cell."""
    cells = json.loads((FILES / "notebooks" / "tables.ipynb").read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    (line, *_), environment = command(project)
    python = Path(line).with_name("python")
    done = subprocess.run(
        [str(python), "-c", AS_A_NOTEBOOK, json.dumps(texts)],
        env={**environment, "LOCKSTEP_PIPELINE": project.plant.pipeline},
        cwd=project.folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def planted_drift(project: PlantProject) -> int:
    """The transaction that changes what two readings' sensor was at their commit."""
    with project.owner() as connection, connection.transaction():
        statement = "UPDATE $schema.$sensor SET $factor = 3 WHERE $serial = 1"
        connection.execute(project.plant.sql(statement))
        return connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()[0]


def tolerate(project: PlantProject, classes: str) -> None:
    """Change what the pipeline's manifest tolerates of mode temporal."""
    manifest = project.folder / "include" / "sql" / project.plant.pipeline / "pipeline.toml"
    text = manifest.read_text().replace('temporal = ["dimension_drift"]', f"temporal = [{classes}]")
    manifest.write_text(text)


def compared_when_due(project: PlantProject, code: int) -> str:
    """The comparison's output, once the stream has passed the cut; it exits with the code."""
    line, environment = command(
        project, "pipeline", "compare", project.plant.pipeline, "temporal", *HOUR
    )
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        done = subprocess.run(line, env=environment, check=False, capture_output=True, text=True)
        if done.returncode != WAITING:
            assert done.returncode == code, done.stdout + done.stderr
            return done.stdout
        assert time.monotonic() < deadline, done.stdout
        time.sleep(1)
