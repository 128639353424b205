"""Commands that other installed packages add to `lockstep`, such as the example's and the tools'.

A package declares them as entry points of the group `lockstep.commands`: each names a function that
is given the application and adds its commands to it.
"""

from importlib.metadata import entry_points

import typer

GROUP = "lockstep.commands"


def register(app: typer.Typer) -> None:
    """Add the commands of all installed packages, by the names of their entry points.

    A package that does not load raises what its import raises: it is installed wrongly.
    """
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        entry.load()(app)
