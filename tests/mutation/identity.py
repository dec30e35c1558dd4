"""The name of a mutant: its words, not its line number.

File, definition, operator, and the lines before and after: a reason that was written
down for a mutant holds until somebody touches the line.
"""

from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True, order=True)
class Identity:
    """The name of a mutant.

    Attributes:
        module: Its file.
        definition: The function or class that it lies in, or empty.
        operator: cosmic-ray's operator.
        before: The lines that it changes, without indentation.
        after: What it makes of them.
    """

    module: str
    definition: str
    operator: str
    before: str
    after: str


def changed_lines(before: str, after: str) -> tuple[str, str]:
    """Return the lines that two texts do not share, each joined to one line."""
    old, new = before.splitlines(), after.splitlines()
    first = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), 0)
    matcher = SequenceMatcher(None, old[first:], new[first:], autojunk=False)
    left: list[str] = []
    added: list[str] = []
    for tag, *bounds in matcher.get_opcodes():
        if tag != "equal":
            a, b, c, d = (first + int(bound) for bound in bounds)
            left += old[a:b]
            added += new[c:d]
    return _one_line(left), _one_line(added)


def _one_line(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)
