"""`lockstep pipeline explain`: what a change of each table does. Only the talking is here."""

from typing import Annotated

import typer

from lockstep.project import project_dir


def explain(name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")]) -> None:
    """For each table: how its rows are found for a fact, and what a change of one does.

    Read from the pipeline's folder; neither a database nor Spark is asked. Exits with 2 when the
    pipeline cannot be used.
    """
    from rich.console import Console
    from rich.markup import escape

    from lockstep.pipeline.explain import explain as explained
    from lockstep.pipeline.plan import plan_named

    plan, console = plan_named(project_dir(), name), Console(highlight=False)
    windows = f"windows by {plan.time}" if plan.time else "no windows: made whole each time"
    console.print(
        f"{name}: a row for each row of {plan.fact.name}, by {', '.join(plan.key)}; {windows}",
        soft_wrap=True,
    )
    for one in explained(plan):
        console.print(f"\n{escape(str(one.table))}", style="bold")
        for title, text in (
            *(("found by", found) for found in one.found_by),
            ("gives", ", ".join(one.gives) or "nothing of its own"),
            ("a change", one.on_change),
        ):
            console.print(f"  {title:<10}{escape(text)}", soft_wrap=True)
