"""Renders the pages' templates."""

from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).with_name("templates")
LAYOUT_OF_A_PART = "part.html"
"""The value of `layout` that leaves out head and styles: for a part of a larger page."""

_environment = Environment(
    loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)


def render(template: str, values: Mapping[str, object]) -> str:
    """The page as HTML; every value is escaped. Every name a template uses must be there."""
    return _environment.get_template(template).render(values)
