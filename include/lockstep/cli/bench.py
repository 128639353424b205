"""`lockstep bench`: benchmarks, each beside its peer in one run."""

import typer

app = typer.Typer(no_args_is_help=True)
