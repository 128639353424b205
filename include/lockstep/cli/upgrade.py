"""`lockstep upgrade`: a home of an earlier version becomes one of this version."""

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(name="upgrade")(upgrade)


def upgrade() -> None:
    """Bring a home that an earlier version made to this version. Stop streams and publisher first.

    If it is broken off, do it again. A home of this version stays as it is.
    """
    from rich.console import Console

    from lockstep.settings import Settings
    from lockstep.streams.upgrade import upgrade as upgrade_home

    settings = Settings.load()
    console = Console(soft_wrap=True, highlight=False, markup=False)
    for what in upgrade_home(settings):
        console.print(what)
    console.print(f"{settings.home} is of this version")
