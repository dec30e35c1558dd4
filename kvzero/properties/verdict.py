"""What a property says of an observation: it holds, it is broken, or it was not judged.

A result always names its property, so that nothing which was not judged can pass for
green. A `Violation` is typed and located: its `identity` says which fault it is, and is
the same while a case shrinks.
"""

import builtins
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

LABEL_WIDTH = 9
Kind = Literal["fault", "refusal", "cost"]


class Identity(NamedTuple):
    """What makes two violations the same fault."""

    property: str
    kind: Kind
    what: str
    place: str


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken property, in one place.

    Attributes:
        property: Name of the property.
        kind: A fault, a refusal of a legal call, or a cost (right bytes, far too much
            work).
        what: Stable short word for the kind of fault, such as
            ``"listed-byte-not-zero"`` or the name of a row of `kvzero.limits`.
        claim: What is, what should be, and in which call.
        place: File and line of the kernel, empty where unknown.
        details: Labels and their lines, most telling first.
        call: Index of the call, None where it is of no single one.
    """

    property: str
    kind: Kind
    what: str
    claim: str
    place: str = ""
    details: tuple[tuple[str, str], ...] = ()
    call: int | None = None

    @builtins.property  # the field above hides the plain name
    def identity(self) -> Identity:
        """Return what stays the same while a case shrinks."""
        return Identity(self.property, self.kind, self.what, self.place)

    @builtins.property
    def headline(self) -> str:
        """Return the first line of the explanation."""
        return f"{self.property}: {self.claim}"

    def lines(self, *more: tuple[str, str]) -> list[str]:
        """Return the whole explanation, with more labelled lines at its end."""
        return [self.headline, *labelled(*self.details, *more)]


def labelled(*details: tuple[str, str]) -> list[str]:
    """Return labels and their texts as lines of an explanation."""
    return [f"  {label:<{LABEL_WIDTH}}{text}" for label, text in details]


@dataclass(frozen=True, slots=True)
class Holds:
    """The property was judged and holds."""

    property: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The property was judged and is broken."""

    property: str
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class NotJudged:
    """Nothing can be said, and why."""

    property: str
    reason: str


Result = Holds | Broken | NotJudged


def settle(
    name: str, violations: Iterable[Violation], not_judged: str | None = None
) -> Result:
    """Return the result of one property.

    A violation that was seen is a fact, whatever else could not be judged.

    Args:
        name: Name of the property.
        violations: What breaks it.
        not_judged: Why it cannot be said to hold, if so.
    """
    found = tuple(violations)
    if found:
        return Broken(name, found)
    return NotJudged(name, not_judged) if not_judged else Holds(name)
