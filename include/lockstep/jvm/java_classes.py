"""Compiles our own Java classes, once for each state of their sources.

With the compiler that Spark brings along (Janino), so that a Java without javac is enough. Janino
knows no generics, lambdas or annotations; what is compiled here does without.
"""

import hashlib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from lockstep.errors import ServiceError
from lockstep.host.files import make_private_folder
from lockstep.host.process import run_to_end
from lockstep.jvm.java import java, java_environment

COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
COMPILE_SECONDS_MAX = 120


def compiled(
    sources: Path,
    classpath: Sequence[Path],
    into: Path,
    finish: Callable[[Path], None] = lambda _: None,
) -> Path:
    """The folder of the classes, inside `into`: compiled only when sources or jars have changed.

    finish: adds to a new folder what is needed in addition to the classes.
    Raises ServiceError with the compiler's words.
    """
    files = sorted(sources.rglob("*.java"))
    parts = (*(path.read_bytes() for path in files), *(jar.name.encode() for jar in classpath))
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
    folder = into / f"classes-{digest}"
    if not folder.exists():
        make_private_folder(into)
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=into))
        try:
            compile_java(files, partial, classpath)
            finish(partial)
            partial.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was first
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def compile_java(sources: Sequence[Path], into: Path, classpath: Sequence[Path]) -> None:
    """Compile against jars and folders of classes. Raises ServiceError."""
    compiler = os.pathsep.join(map(str, (*spark_jars("janino"), *spark_jars("commons-compiler"))))
    against = os.pathsep.join(map(str, classpath))
    command = [java(), "-cp", compiler, COMPILER, "-d", str(into), "-classpath", against]
    command += map(str, sources)
    doing = f"compiling {sources[0]}"
    done = run_to_end(command, doing, COMPILE_SECONDS_MAX, env=java_environment())
    if done.returncode != 0:
        problem = (done.stderr or done.stdout).strip()
        raise ServiceError(f"{sources[0].parent} cannot be compiled: {problem}")


def spark_jars(name: str) -> list[Path]:
    """The jars of that name, of any version, that the installed Spark brings along."""
    spark = importlib.util.find_spec("pyspark")
    folder = Path(spark.origin).parent / "jars" if spark and spark.origin else Path()
    found = sorted(folder.glob(f"{name}-[0-9]*.jar"))
    if not found:
        raise ServiceError(f"pyspark's {name} jar is not installed: run `make setup`")
    return found
