"""Where a project's folder has its sources and pipelines, and what their manifests are called."""

from pathlib import Path

SOURCES = Path("include", "sources")
PIPELINES = Path("include", "sql")
SOURCE_FILE = "source.toml"
PIPELINE_FILE = "pipeline.toml"
