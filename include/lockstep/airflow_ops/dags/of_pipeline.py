"""What the DAGs of one pipeline have in common: its names, its folder, how they look.

A pipeline with problems, whether of its folder, its query or its result.lock, has its DAGs all the
same, as far as names can be read: a stream that runs keeps its supervision. They are tagged
`broken`, their pages show the problems, nothing is scheduled, and each task fails with them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from lockstep.errors import with_pipeline
from lockstep.model.windows import Windows
from lockstep.pipeline.errors import Problem
from lockstep.pipeline.manifest import Access
from lockstep.pipeline.pipeline_names import PipelineNames, own_pipeline
from lockstep.pipeline.plan import run_problem
from lockstep.pipeline.project import Pipeline
from lockstep.settings import Settings

BROKEN = "broken"
"""The tag of DAGs whose pipeline has problems."""
_TEXTS = Path(__file__).parent
_PERMISSIONS = {
    Access.READ: {"DAGs": {"can_read"}, "DAG Runs": {"can_read"}},
    Access.RUN: {"DAGs": {"can_read", "can_edit"}, "DAG Runs": {"can_read", "can_create"}},
}
"""Resources and actions of the FAB auth manager."""


@dataclass(frozen=True)
class PipelineDags:
    """settings: of the pipeline. pipeline: None when its folder has problems."""

    settings: Settings
    pipeline: Pipeline | None
    folder_problems: Sequence[Problem] = ()

    @cached_property
    def names(self) -> PipelineNames:
        return self.settings.names

    @cached_property
    def problems(self) -> Sequence[Problem | str]:
        """Of the folder, or why the pipeline cannot run: what `lockstep pipeline check` names.

        The query is analysed for it, 20 ms: of a task's own pipeline, not of all in the project.
        """
        if self.pipeline is None:
            return self.folder_problems
        return run_problem(self.pipeline).splitlines()

    @property
    def title(self) -> str:
        """The pipeline's name for people: `Orders enriched`."""
        return self.names.pipeline.replace("_", " ").capitalize()

    @property
    def is_own(self) -> bool:
        """Whether it is the project's own pipeline, or its only one."""
        return self.names.pipeline == own_pipeline(self.settings.project)

    @property
    def windows(self) -> Windows | None:
        """None for a result without a time, which is replaced whole, or with problems."""
        if self.pipeline is None or self.pipeline.manifest.time is None:
            return None
        return self.pipeline.manifest.windows

    @property
    def every(self) -> timedelta | None:
        """How often the pipeline is run; None without a schedule, or with problems."""
        schedule = self.pipeline and self.pipeline.manifest.schedule
        return schedule.every if schedule else None

    @property
    def is_broken(self) -> bool:
        """Nothing of it is to be scheduled."""
        return bool(self.problems)

    @property
    def fact(self) -> str:
        return "the fact" if self.pipeline is None else str(self.pipeline.manifest.fact)

    @property
    def has_view(self) -> bool:
        return self.pipeline is not None and self.pipeline.manifest.view is not None

    def looks(self, kind: str, what: str, description: str, text: str, **words: str) -> dict:
        """Keyword arguments of a DAG: how it is shown and found.

        kind: its tag. text: the file of its page. words: what stands in the text for each name.
        """
        broken = [BROKEN] if self.is_broken else []
        return {
            "access_control": self._access,
            "dag_display_name": f"{self.title}: {what}",
            "description": description,
            "doc_md": self._problems_text + self.text(text, **words),
            "tags": ["lockstep", self.names.pipeline, kind, *broken],
        }

    def text(self, file: str, **words: str) -> str:
        """A file of this folder, about the pipeline."""
        text = (_TEXTS / file).read_text(encoding="utf-8")
        meanings = {"PIPELINE": self.names.pipeline, "FACT": self.fact, **words}
        placeholder = re.compile(rf"(?<![A-Za-z0-9])({'|'.join(meanings)})(?![A-Za-z0-9])")
        text = placeholder.sub(lambda found: meanings[found[1]], text)
        return with_pipeline(text, self.settings.pipeline)

    @property
    def _access(self) -> dict[str, dict[str, set[str]]] | None:
        """By role, as DAG takes it; None leaves the permissions to Airflow."""
        if self.pipeline is None or not self.pipeline.manifest.access:
            return None
        return {
            role: _PERMISSIONS[access] for role, access in self.pipeline.manifest.access.items()
        }

    @property
    def _problems_text(self) -> str:
        if not self.problems:
            return ""
        listed = "\n".join(f"* `{problem}`" for problem in self.problems)
        return (
            f"### The pipeline has problems\n\n{listed}\n\nCorrect them; until then nothing is "
            "scheduled. `lockstep pipeline check` names them, too.\n\n"
        )


def default_args(**more: Any) -> dict[str, Any]:
    return {"owner": "lockstep", **more}
