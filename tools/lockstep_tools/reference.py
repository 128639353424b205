"""`make reference`: docs/reference.md, written from the code: every command, every manifest's keys.

A test sees to it that the file is as the code is.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from lockstep.cli import app
from lockstep.pipeline.checks import ChecksManifest
from lockstep.pipeline.manifest import PipelineManifest
from lockstep.pipeline.source import SourceManifest
from lockstep.pipeline.steps import StepsManifest
from lockstep.project import project_dir
from pydantic import BaseModel

FILE = Path("docs", "reference.md")
MODELS = {
    "source.toml": SourceManifest,
    "pipeline.toml": PipelineManifest,
    "checks.toml": ChecksManifest,
    "tests/*.toml": StepsManifest,
}
_HEAD = """\
# Reference

Written from the code by `make reference`. What the commands are for: [README](../README.md) and
[A pipeline from a folder](pipelines.md). Each exits with 0 when it did what it says, with 2 and one
line that says what is wrong and what to do when it could not; other codes are named. `--help` shows
the same.
"""


def reference() -> str:
    """The text of the file."""
    parts = [_HEAD, "\n## Commands\n", *_commands(typer.main.get_command(app), ("lockstep",))]
    for file, model in MODELS.items():
        parts += [f"\n## {file}\n", *_manifest(model)]
    return "\n".join(parts)


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[str]:
    """Of the library alone: other packages add commands of their own."""
    if hasattr(command, "commands"):
        for name, one in sorted(command.commands.items()):
            yield from _commands(one, (*words, name))
        return
    if not command.callback.__module__.startswith("lockstep."):
        return
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    usage = " ".join((*words, *(one.metavar or one.name.upper() for one in arguments)))
    yield f"### `{usage}`\n"
    yield _paragraphs(command.help or "")
    options = [one for one in command.params if one.name != "help" and getattr(one, "help", "")]
    for one in options:
        yield f"- {_named(one)}: {one.help}"
    if options:
        yield ""


def _named(one: Any) -> str:
    if one.param_type_name == "argument":
        return f"`{one.metavar or one.name.upper()}`"
    return ", ".join(f"`{name}`" for name in one.opts)


def _paragraphs(text: str) -> str:
    parts = (" ".join(part.split()) for part in text.strip().split("\n\n"))
    return "\n\n".join(parts) + "\n"


def _manifest(model: type[BaseModel]) -> Iterator[str]:
    schema = model.model_json_schema()
    yield f"{_sentence(schema['description'])}\n"
    yield from _keys(schema)
    for name, one in schema.get("$defs", {}).items():
        if "properties" in one:
            yield f"\n`{name.lower()}`: {_sentence(one['description'])}\n"
            yield from _keys(one)
    yield ""


def _keys(schema: dict[str, Any]) -> Iterator[str]:
    """A row for each key: its name, whether it must be there, and what it says."""
    yield "| key | default | what it says |"
    yield "| --- | --- | --- |"
    required = schema.get("required", ())
    for name, one in schema["properties"].items():
        default = "must be there" if name in required else _default(one)
        said = one.get("description", "").replace("|", "\\|")
        yield f"| `{name}` | {default} | {said}{_choices(one)} |"


def _default(one: dict[str, Any]) -> str:
    default = one.get("default")
    return "" if default in (None, [], {}) else f"`{json.dumps(default)}`"


def _choices(one: dict[str, Any]) -> str:
    found = one.get("enum") or one.get("items", {}).get("enum") or ()
    return f": {', '.join(f'`{choice}`' for choice in found)}" if found else ""


def _sentence(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    (project_dir() / FILE).write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
