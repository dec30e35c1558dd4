"""What a fault subject declares besides being a subject."""

from dataclasses import dataclass

from kvzero.subjects.protocol import MadeSubject


@dataclass(frozen=True, slots=True)
class Fault(MadeSubject):
    """A deliberately broken subject that the harness must catch.

    Attributes:
        kind: The public fault kind.
        area: Where it lies: ``"planner"`` (views included), ``"kernel"``, ``"ids"``,
            ``"ordering"`` or ``"cache"`` (what is kept from call to call).
        breaks: The property whose violation counts as its kill.
        what: The kind of that violation.
        needs_gpu: Only the device executor can show it.
    """

    kind: str = ""
    area: str = ""
    breaks: str = ""
    what: str = ""
    needs_gpu: bool = False
