"""What a pipeline.toml has wrong against its source's catalog, its folder and other pipelines.

What it has wrong alone is in manifest.py. The columns of the result are the query's and are not
known here, nor does anything here ask a database.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from lockstep.pipeline.catalog import Catalog, TableName
from lockstep.pipeline.errors import CatalogError, Problem, meant
from lockstep.pipeline.manifest import PipelineManifest, column_of
from lockstep.pipeline.modes import STREAM_MODES, Mode
from lockstep.pipeline.toml_file import TomlFile, validate
from lockstep.pipeline.toml_lines import KeyPath

_STAND_INS = {
    "format_version": 1,
    "sources": [""],
    "semantics": "as_of_commit",
    "fact": "stand_in",
    "key": ["stand_in"],
}
"""For required keys that are wrong or missing, so that the others can be checked all the same."""
_WITHOUT_TIME_ZONE = re.compile(r"timestamp(\(\d\))? without time zone")

Finding = tuple[KeyPath, str]


class Around(NamedTuple):
    """What is around a manifest: every source, with its catalog if that can be read; view.sql."""

    catalogs: Mapping[str, Catalog | None]
    has_view_file: bool


class Column(NamedTuple):
    """A column of a source's table."""

    source: str
    table: TableName
    name: str


def read_manifest(toml: TomlFile, around: Around) -> tuple[PipelineManifest, tuple[Problem, ...]]:
    """The manifest, with every problem of its own and against what is around it.

    With problems it holds stand-ins, and may be used for nothing but `zones`.
    """
    read = validate(PipelineManifest, toml)
    manifest = read.model
    if manifest is None:
        right = {key: value for key, value in toml.content.items() if key not in read.wrong}
        manifest = PipelineManifest.model_validate({**_STAND_INS, **right})
    found = [toml.problem(*one) for one in _findings(manifest, around, read.wrong)]
    return manifest, (*read.problems, *found)


def zones(manifest: PipelineManifest) -> Iterator[tuple[str, Column, str]]:
    """The key, column and time zone of each entry of `time_zones` that names a column."""
    source = manifest.sources[0]
    for key, zone in manifest.time_zones.items() if source else ():
        with suppress(ValueError):
            yield key, Column(source, *column_of(key)), zone


def _findings(
    manifest: PipelineManifest, around: Around, wrong: frozenset[str]
) -> Iterator[Finding]:
    """Of each check whose keys are all right by themselves."""
    catalog = around.catalogs.get(manifest.sources[0])
    checks = (
        ({"sources"}, _source(manifest, around)),
        ({"view"}, _view_file(manifest, around)),
        ({"view", "modes"}, _look_up(manifest)),
        ({"outbox", "modes"}, _published(manifest)),
        ({"children", "fact", "modes"}, _children(manifest, catalog)),
        ({"modes", "tolerate"}, _tolerated(manifest)),
        ({"fact", "key"}, _fact(manifest, catalog) if catalog else ()),
        ({"time_zones"}, _time_zones(manifest, catalog)),
    )
    for keys, findings in checks:
        if keys.isdisjoint(wrong):
            yield from findings


def _source(manifest: PipelineManifest, around: Around) -> Iterator[Finding]:
    name = manifest.sources[0]
    if name not in around.catalogs:
        message = f"there is no source {name}: {meant(name, list(around.catalogs))}"
        yield ("sources", 0), f"{message}; one is a folder of include/sources with a source.toml"


def _view_file(manifest: PipelineManifest, around: Around) -> Iterator[Finding]:
    if around.has_view_file and not manifest.view:
        yield ("view",), "is missing, and there is a view.sql: name the view that it makes"


def _look_up(manifest: PipelineManifest) -> Iterator[Finding]:
    if Mode.LOOKUP in manifest.modes and not manifest.view:
        at = manifest.modes.index(Mode.LOOKUP)
        yield ("modes", at), "lookup reads rows from a view: name it by `view`, or remove lookup"


def _published(manifest: PipelineManifest) -> Iterator[Finding]:
    if Mode.OUTBOX in manifest.modes and not manifest.outbox:
        at = manifest.modes.index(Mode.OUTBOX)
        yield ("modes", at), "outbox reads a table: name it by `outbox`, or remove outbox from here"


def _children(manifest: PipelineManifest, catalog: Catalog | None) -> Iterator[Finding]:
    for place, child in enumerate(manifest.children):
        if child == manifest.fact:
            yield ("children", place), f"{child} is the fact itself: remove it"
        elif catalog:
            try:
                catalog.table(child)
            except CatalogError as error:
                yield ("children", place), str(error)
    if manifest.children and Mode.LOOKUP in manifest.modes:
        at, fault = manifest.modes.index(Mode.LOOKUP), "lookup does not follow `children`"
        yield ("modes", at), f"{fault} in this version: remove it here, or leave `children` out"


def _tolerated(manifest: PipelineManifest) -> Iterator[Finding]:
    for mode in STREAM_MODES:
        if mode in manifest.tolerate.model_fields_set and mode not in manifest.modes:
            yield ("tolerate", str(mode)), f"{mode} is not in `modes`: add it there, or remove this"


def _fact(manifest: PipelineManifest, catalog: Catalog) -> Iterator[Finding]:
    try:
        fact = catalog.table(manifest.fact)
    except CatalogError as error:
        yield ("fact",), str(error)
        return
    columns = {column.name for column in fact.columns}
    strange = [column for column in manifest.key if column not in columns]
    if not fact.key and strange:
        message = f"{fact.name} has no primary key, and no column {' or '.join(strange)} of `key`"
        remedy = "give it a primary key, or let `key` be columns of it that identify a row"
        yield ("fact",), f"{message}: {remedy}"


def _time_zones(manifest: PipelineManifest, catalog: Catalog | None) -> Iterator[Finding]:
    for key in manifest.time_zones:
        try:
            table, name = column_of(key)
            if catalog:
                type_ = catalog.table(table).column(name).type
                yield from _type(("time_zones", key), catalog.domains.get(type_, type_))
        except (CatalogError, ValueError) as error:
            yield ("time_zones", key), str(error)


def _type(path: KeyPath, type_: str) -> Iterator[Finding]:
    if not _WITHOUT_TIME_ZONE.fullmatch(type_):
        yield (
            path,
            f"is of type {type_}, and only `timestamp without time zone` needs one: remove it",
        )
