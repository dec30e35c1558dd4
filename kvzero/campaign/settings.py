"""What a campaign does, as plain data: it travels to workers, files and machines.

Every random choice follows from ``(seed, worker, batch)``. Each worker has a number of
its own, so no two of a campaign draw the same cases.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from kvzero.campaign.fuzz import CASE_SECONDS, MAX_PROGRAMS, SHRINK_SECONDS
from kvzero.campaign.known import Known
from kvzero.codec import shown
from kvzero.errors import CaseError
from kvzero.executors import EXECUTOR_NAMES
from kvzero.executors.isolated import MEMORY_BYTES, Isolation

Json = Any  # a JSON document

MOST_WORKERS = 4096


@dataclass(frozen=True)
class Settings:
    """How a campaign looks for faults.

    Attributes:
        subject: Name that every process finds the subject by.
        executor: Name of the executor.
        seed: Every random choice follows from it.
        workers: Processes that draw and judge cases at the same time.
        first_worker: Number of the first of them.
        seconds: Time for finding, or None.
        cases: Cases that all workers draw together, or None.
        max_failures: Distinct failures after which no more are looked for, or None.
        strict_cost: A cost is a failure, too.
        target: The only platform of drawn cases, or None.
        max_programs: Programs evaluated for one case at most.
        case_seconds: Time of one case, after which it hangs.
        case_bytes: Resident memory that a worker may take.
        shrink_seconds: Time for shrinking one failure.
        gpus: ``CUDA_VISIBLE_DEVICES`` of each worker in turn; empty: as it is.
        known: Known findings of the subject, as `known_to_json` tells them.
    """

    subject: str = "kvzero"
    executor: str = "footprint"
    seed: int = 0
    workers: int = 1
    first_worker: int = 0
    seconds: float | None = None
    cases: int | None = None
    max_failures: int | None = None
    strict_cost: bool = False
    target: str | None = None
    max_programs: int = MAX_PROGRAMS
    case_seconds: float = CASE_SECONDS
    case_bytes: int = MEMORY_BYTES
    shrink_seconds: float = SHRINK_SECONDS
    gpus: tuple[str, ...] = ()
    known: tuple[Mapping[str, str], ...] = ()

    def share(self, index: int) -> int | None:
        """Return how many cases the worker of an index draws; None: no limit.

        Args:
            index: Counts the workers from 0.
        """
        if self.cases is None:
            return None
        return self.cases // self.workers + (index < self.cases % self.workers)

    def environment(self, index: int) -> dict[str, str]:
        """Return the environment variables that give a worker its GPU."""
        if not self.gpus:
            return {}
        return {"CUDA_VISIBLE_DEVICES": self.gpus[index % len(self.gpus)]}

    def isolation(self, index: int) -> Isolation:
        """Return how cases of a worker are run again on their own."""
        return Isolation(
            self.case_seconds, self.case_bytes, environment=self.environment(index)
        )

    def as_json(self) -> Json:
        """Return the settings as plain data."""
        return {**asdict(self), "gpus": list(self.gpus), "known": list(self.known)}


def known_to_json(known: Known) -> dict[str, str]:
    """Return a known finding as plain data."""
    return {**asdict(known), "case": str(known.case)}


def known_from_json(value: Mapping[str, str]) -> Known:
    """Return the finding that `known_to_json` told."""
    return Known(**{**value, "case": Path(value["case"])})  # type: ignore[arg-type]  # every other field is a text


def settings_from_json(value: Json, name: str = "settings") -> Settings:
    """Return the settings that plain data stands for.

    Args:
        value: What `Settings.as_json` returned, or what someone wrote.
        name: What errors call it.

    Raises:
        CaseError: It is no such thing; the wrong field is named.
    """
    hints = get_type_hints(Settings)
    if not isinstance(value, dict) or set(value) - set(hints):
        raise CaseError(f"{name}={shown(value)}, but must hold settings alone")
    taken = {}
    for field in fields(Settings):
        if field.name not in value:
            continue
        taken[field.name] = _taken(hints[field.name], value[field.name])
        if taken[field.name] is NotImplemented:
            told = shown(value[field.name])
            raise CaseError(f"{name}.{field.name}={told}, but must be another type")
    settings = Settings(**taken)
    if settings.executor not in EXECUTOR_NAMES:
        raise CaseError(f"{name}.executor, but must be one of {EXECUTOR_NAMES}")
    if not 1 <= settings.workers <= MOST_WORKERS or settings.first_worker < 0:
        raise CaseError(
            f"{name}.workers={settings.workers}, but must be 1 to {MOST_WORKERS}"
        )
    return settings


def _taken(hint: Any, value: Json) -> Any:  # Any: a type hint, a field's value
    """Return a field's value, or NotImplemented where it is of another type."""
    if isinstance(value, list):
        is_tuple = getattr(hint, "__origin__", None) is tuple
        kinds = (str, dict) if is_tuple else ()
        return (
            tuple(value)
            if all(isinstance(v, kinds) for v in value)
            else (NotImplemented)
        )
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if float in kinds and type(value) is int:
        return float(value)
    return value if type(value) in kinds else NotImplemented
