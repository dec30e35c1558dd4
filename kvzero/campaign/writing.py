"""Writes that fail, as one clear error: a full disk must not look like a bug."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvzero.errors import EnvironmentMissingError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says to a write into one clear error.

    Raises:
        EnvironmentMissingError: The disk is full, or the like.
    """
    try:
        yield
    except OSError as error:
        raise EnvironmentMissingError(
            f"{path}: {error.strerror}, but must be writable: what was written before "
            f"is whole, and --resume goes on from there"
        ) from error
