"""A folder that is there whole or not at all."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockstep.errors import ConfigurationError


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Gives the place of a new folder to make and fill; it becomes `folder` when the block ends.

    `folder` is new or empty. Raises ConfigurationError when it cannot be written; whatever the
    block raises, nothing is left.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as place:
            made = Path(place) / folder.name
            yield made
            made.replace(folder)
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be written: {error}") from error
