"""A failure that knows what was found, so that others can save and picture it.

Its text is the located explanation, made when it is asked for: a case that is saved
after the failure was raised is named in it.
"""

from collections.abc import Sequence
from functools import cache

from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.outcome import found_text
from kvzero.campaign.tally import Found
from kvzero.errors import PropertyFailure
from kvzero.properties.verdict import Identity


class FoundFailure(PropertyFailure):
    """A subject broke a property.

    Attributes:
        found: What was found, most telling first.
        judge: What judged it, and can again; None: it is settled already.
    """

    def __init__(self, found: Sequence[Found], judge: Judge | None = None) -> None:
        """Keep what was found."""
        super().__init__(found, judge)
        self.found = tuple(found)
        self.judge = judge

    def __str__(self) -> str:
        """Return the explanations, each with the line that runs its case again."""
        return "\n\n".join(map(found_text, self.found))


@cache
def failure_class(identity: Identity) -> type[FoundFailure]:
    """Return the exception class of one fault: Hypothesis keeps classes apart."""
    name = "".join(word.capitalize() for word in identity.what.split("-"))
    return type(f"{name}Failure", (FoundFailure,), {"__module__": "kvzero"})


def refuse_broken(judge: Judge, judged: Judged) -> None:
    """Raise what a judged case broke, if that counts.

    Raises:
        FoundFailure: It broke a property; the class is that of the first violation.
    """
    __tracebackhide__ = True  # under pytest, the reader's own line is the last
    failures = judge.failures(judged)
    if failures:
        found = [Found(violation, judged) for violation in failures[:1]]
        raise failure_class(failures[0].identity)(found, judge)
