"""Where a worker stands in the row of cases that its number and the seed give it.

The row is: the cases of the corpus, Hypothesis's example database, then batches of
drawn cases. A case has the same place in it whatever happened to the cases before, so a
worker that died is replaced by one that goes on where it was, less the guilty case.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from kvzero.errors import CaseError

Json = Any  # a JSON document
Stage = Literal["corpus", "database", "batches", "done"]
STAGES: tuple[Stage, ...] = get_args(Stage)


@dataclass(frozen=True)
class Position:
    """A place in a worker's row of cases.

    Attributes:
        stage: Which part of the row.
        batch: Which batch of the stage.
        case: Cases of that batch which are behind.
        skip: Later cases of it which have killed a worker, and are not run again.
        drawn: Cases drawn in the batches before.
        raised: Failures that this worker has met, each of which ended its batch.
    """

    stage: Stage = "corpus"
    batch: int = 0
    case: int = 0
    skip: tuple[int, ...] = ()
    drawn: int = 0
    raised: tuple[str, ...] = ()

    @property
    def behind(self) -> int:
        """Return how many cases have been drawn so far."""
        return self.drawn + (self.case if self.stage == "batches" else 0)

    def at(self, case: int) -> "Position":
        """Return the place in this batch after some of its cases."""
        return replace(self, case=case, skip=tuple(s for s in self.skip if s >= case))

    def after_batch(self, cases: int) -> "Position":
        """Return the begin of the next batch, or of the next stage.

        Args:
            cases: Cases that the batch had.
        """
        if self.stage == "batches":
            drawn = self.drawn + cases
            return replace(self, batch=self.batch + 1, case=0, skip=(), drawn=drawn)
        following = STAGES[STAGES.index(self.stage) + 1]
        return replace(self, stage=following, batch=0, case=0, skip=())

    def at_end(self) -> "Position":
        """Return the end of the row."""
        return replace(self, stage="done", case=0, skip=())

    def raising(self, digest: str) -> "Position":
        """Return this place, with one more failure met."""
        return replace(self, raised=(*self.raised, digest))

    def without(self, begun: int) -> "Position":
        """Return this place, with one case skipped that killed the worker.

        Args:
            begun: Which of the cases that were begun here, counted from 0.
        """
        place = self.case
        while True:
            if place not in self.skip:
                if begun == 0:
                    return replace(self, skip=(*self.skip, place))
                begun -= 1
            place += 1

    def as_json(self) -> Json:
        """Return it as plain data."""
        return asdict(self)


def position_from_json(value: Json, name: str = "position") -> Position:
    """Return the place that `Position.as_json` told.

    Raises:
        CaseError: It is none.
    """
    try:
        position = Position(
            value["stage"],
            int(value["batch"]),
            int(value["case"]),
            tuple(int(skip) for skip in value["skip"]),
            int(value["drawn"]),
            tuple(str(raised) for raised in value["raised"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CaseError(f"{name}: {error!r}, but must be a place in a row") from None
    numbers = (position.batch, position.case, position.drawn, *position.skip)
    if position.stage not in STAGES or min(numbers) < 0:
        raise CaseError(f"{name}={value!r}, but must be a place in a row of cases")
    return position
