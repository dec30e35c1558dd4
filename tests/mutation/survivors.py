"""Survivors that are named: mutants that nothing can notice, each with the reason why.

`survivors.toml` holds them by their words. An entry whose mutant was run and killed is
wrong, and one whose mutant no longer exists is stale; both are told.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.identity import Identity

FILE = Path(__file__).with_name("survivors.toml")
FIELDS = {"module", "definition", "before", "after", "reason"}


@dataclass(frozen=True)
class Named:
    """Mutants of one line that nobody can tell from it.

    Attributes:
        module: The file.
        definition: The function or class, or empty.
        before: The lines, without indentation.
        after: What mutants make of them.
        reason: Why nothing can notice.
    """

    module: str
    definition: str
    before: str
    after: tuple[str, ...]
    reason: str

    def names(self, mutant: Identity) -> bool:
        """Return whether a mutant is one of these."""
        return (
            (mutant.module, mutant.definition, mutant.before)
            == (self.module, self.definition, self.before)
        ) and mutant.after in self.after


def named_survivors(file: Path = FILE) -> tuple[Named, ...]:
    """Return the named survivors of a file.

    Args:
        file: TOML, a table ``[[survivor]]`` each.

    Raises:
        ValueError: An entry lacks a field, or has one too many.
    """
    with file.open("rb") as opened:
        entries = tomllib.load(opened).get("survivor", [])
    for index, entry in enumerate(entries):
        if set(entry) != FIELDS or not entry["reason"].strip():
            raise ValueError(
                f"survivor[{index}] of {file.name} has {sorted(entry)}, but must have "
                f"{sorted(FIELDS)}, the reason not empty"
            )
    return tuple(
        Named(**{**entry, "after": tuple(entry["after"])}) for entry in entries
    )


def reason_of(mutant: Identity, named: tuple[Named, ...]) -> str | None:
    """Return why a mutant may survive, or None."""
    return next((each.reason for each in named if each.names(mutant)), None)
