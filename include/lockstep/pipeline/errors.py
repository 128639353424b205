"""What can be wrong with a pipeline's folder. Each error names the file and says what to do."""

from difflib import get_close_matches

from lockstep.errors import LockstepError


class PipelineError(LockstepError):
    """A source's or a pipeline's folder cannot be used as it is."""

    restart_helps = False


class CatalogError(PipelineError):
    """catalog.lock is missing, damaged, or does not have what is asked for."""


def meant(name: str, known: list[str]) -> str:
    """What to add to a message about an unknown name: the known ones that are alike, or all."""
    alike = get_close_matches(name, known, n=3)
    if alike:
        return f"did you mean {' or '.join(alike)}?"
    return f"there are: {', '.join(sorted(known))}" if known else "there is none"
