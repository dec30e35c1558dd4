"""Subjects that installed packages offer, by the entry-point group `kvzero.subjects`.

What a package offers is a name and ``module:attribute``; nothing of it is imported
until somebody asks for that name, so a broken package harms nobody else.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from kvzero.errors import SubjectError

GROUP = "kvzero.subjects"


class Offer(NamedTuple):
    """A name that an installed package offers.

    Attributes:
        name: The name that ``--subject`` takes.
        path: ``module:attribute`` of the subject.
        distribution: The package and its version.
    """

    name: str
    path: str
    distribution: str


@cache
def offers() -> tuple[Offer, ...]:
    """Return what installed packages offer, sorted by name; packages are read once."""
    return tuple(sorted({_offer(point) for point in entry_points(group=GROUP)}))


def _offer(point: EntryPoint) -> Offer:
    package = point.dist
    known = f"{package.name} {package.version}" if package else "an unknown package"
    return Offer(point.name, point.value, known)


def offered(name: str, *, is_taken: bool) -> Offer | None:
    """Return the offer of a name, or None.

    Args:
        name: The name.
        is_taken: kvzero itself has a subject of that name.

    Raises:
        SubjectError: Several subjects have the name: nobody could tell which ran.
    """
    found = [offer for offer in offers() if offer.name == name]
    owners = ["kvzero itself"] * is_taken + [offer.distribution for offer in found]
    if found and len(owners) > 1:
        raise SubjectError(
            f"subject={name!r}, but must be one subject's name: it is offered by "
            f"{' and by '.join(owners)}: uninstall one, or name module:attribute"
        )
    return found[0] if found else None
