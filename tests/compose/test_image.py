"""deploy/Dockerfile builds the image of docker-compose.yml from what the project has locked.

No engine runs here: what is checked is that its instructions fit the project's files.
"""

import fnmatch
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from lockstep.streams.class_archive import JAR_ALONE

from tests.project import PROJECT_DIR

DEPLOY = PROJECT_DIR / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"


def instructions() -> list[list[str]]:
    """The Dockerfile's instructions, continued lines joined, as words."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.strip()]


def test_the_image_has_the_python_and_the_java_of_the_project() -> None:
    wanted = tomllib.loads((PROJECT_DIR / "pyproject.toml").read_text())["project"]
    assert wanted["requires-python"] == ">=3.11,<3.12"
    base = next(words[1] for words in instructions() if words[0] == "FROM")
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", base)
    assert "openjdk-17-jre-headless" in {word for words in instructions() for word in words}


def test_the_image_installs_the_locked_packages_and_jars() -> None:
    runs = [" ".join(words[1:]) for words in instructions() if words[0] == "RUN"]
    assert any("pip install --require-hashes -r requirements.txt" in run for run in runs)
    assert "requirements-dev" not in DOCKERFILE.read_text(encoding="utf-8")
    assert any("python -m lockstep.jars" in run for run in runs)


def copied() -> list[str]:
    return [
        source
        for words in instructions()
        if words[0] == "COPY" and not words[1].startswith("--from")
        for source in words[1:-1]
    ]


def test_what_the_image_copies_exists_and_is_not_hidden_from_the_build() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    shown = [rule[1:] for rule in rules if rule.startswith("!")]
    assert rules[0] == "*"
    for source in copied():
        assert (PROJECT_DIR / source).exists(), source
        assert any(source == top or source.startswith(f"{top}/") for top in shown), source
    for secret in (".env", ".lockstep", ".git"):
        assert not any(fnmatch.fnmatch(secret, top) for top in shown)


def test_the_image_holds_what_airflow_and_the_jobs_need_beside_the_library() -> None:
    files = {"include/connectors", "include/sources", "include/sql"}
    assert files | {"dags", "jobs", "plugins"} <= set(copied())
    assert ["ENV", "LOCKSTEP_PROJECT=/opt/lockstep"] in instructions()


def test_the_image_installs_the_wheel_and_has_neither_example_nor_tools() -> None:
    runs = [" ".join(words[1:]) for words in instructions() if words[0] == "RUN"]
    assert any("pip wheel --no-deps" in run for run in runs)
    assert "pip install --no-deps /wheel/*.whl" in runs
    assert not [source for source in copied() if source.startswith(("examples", "tools"))]
    last = max(at for at, words in enumerate(instructions()) if words[0] == "FROM")
    kept = {word for words in instructions()[last:] if words[0] == "COPY" for word in words[1:]}
    assert not {"include", "include/lockstep"} & kept


def test_the_image_has_our_classes_for_sparks_drivers_compiled_from_the_wheel() -> None:
    made = ["RUN", "python", "-m", "lockstep.streams.class_archive", JAR_ALONE]
    order = [instructions().index(one) for one in (["ENV", "LOCKSTEP_PROJECT=/opt/lockstep"], made)]
    assert order == sorted(order)
    assert instructions().index(["USER", "lockstep"]) > order[-1]


def test_the_image_does_not_run_as_root() -> None:
    users = [words[1] for words in instructions() if words[0] == "USER"]
    assert users[-1:] == ["lockstep"]


def test_the_stage_of_the_jars_has_all_that_it_imports(tmp_path: Path) -> None:
    begin = next(at for at, words in enumerate(instructions()) if words[-2:] == ["AS", "jars"])
    for words in instructions()[begin + 1 :]:
        if words[0] == "FROM":
            break
        for source in words[1:-1] if words[0] == "COPY" else ():
            (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / source).symlink_to(PROJECT_DIR / source)
    library = tmp_path / "include"
    program = f"import sys; sys.path.insert(0, {str(library)!r}); import lockstep.jars.__main__; "
    program += "print(lockstep.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(library))
