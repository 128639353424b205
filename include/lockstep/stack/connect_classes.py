"""Compiles our own classes for Kafka Connect: include/connectors/java, into HOME/connect/classes.

With the compiler that Spark brings along (Janino), so that a Java without javac is enough. Janino
knows no generics, lambdas or annotations; what is compiled here does without.
"""

import hashlib
import importlib.util
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from lockstep import jars
from lockstep.errors import ServiceError
from lockstep.settings import PROJECT_DIR, Settings
from lockstep.stack.files import make_private_folder
from lockstep.stack.java import java, java_environment
from lockstep.stack.process import run_to_end

SOURCES = PROJECT_DIR / "include" / "connectors" / "java"
COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
COMPILE_SECONDS_MAX = 120
CONNECTORS = Path("META-INF") / "services" / "org.apache.kafka.connect.source.SourceConnector"
"""How Connect finds a connector on its class path: one class name a line."""


def compiled(settings: Settings) -> Path:
    """The folder for the class path; compiled only when the sources or the jars have changed.

    Raises ServiceError with the compiler's words.
    """
    sources = sorted(SOURCES.rglob("*.java"))
    against = (jar.name.encode() for jar in jars.classpath(settings, "connect"))
    parts = (*(path.read_bytes() for path in sources), *against)
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
    folder = settings.home / "connect" / f"classes-{digest}"
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        make_private_folder(partial)
        compile_java(settings, sources, partial)
        _declare(sources, partial)
        partial.rename(folder)
    return folder


def compile_java(
    settings: Settings, sources: list[Path], into: Path, classes: Sequence[Path] = ()
) -> None:
    """Compile against Connect's jars and further folders of classes. Raises ServiceError."""
    classpath = os.pathsep.join(map(str, (*classes, *jars.classpath(settings, "connect"))))
    compiler = os.pathsep.join(str(jar) for jar in _compiler_jars())
    command = [java(), "-cp", compiler, COMPILER, "-d", str(into), "-classpath", classpath]
    command += map(str, sources)
    doing = f"compiling {sources[0]}"
    done = run_to_end(command, doing, COMPILE_SECONDS_MAX, env=java_environment())
    if done.returncode != 0:
        problem = (done.stderr or done.stdout).strip()
        raise ServiceError(f"{sources[0].parent} cannot be compiled: {problem}")


def _declare(sources: list[Path], into: Path) -> None:
    connectors = [path for path in sources if path.stem.endswith("Connector")]
    names = (".".join(path.relative_to(SOURCES).with_suffix("").parts) for path in connectors)
    (into / CONNECTORS.parent).mkdir(parents=True)
    (into / CONNECTORS).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def _compiler_jars() -> list[Path]:
    spark = importlib.util.find_spec("pyspark")
    folder = Path(spark.origin).parent / "jars" if spark and spark.origin else Path()
    found = [*folder.glob("janino-*.jar"), *folder.glob("commons-compiler-*.jar")]
    if len(found) != 2:  # noqa: PLR2004
        raise ServiceError("pyspark's compiler (janino) is not installed: run `make setup`")
    return found
