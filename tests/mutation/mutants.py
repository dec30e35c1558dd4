"""cosmic-ray's mutants: listed in its session, written by its operators.

A session is a sqlite file of cosmic-ray, so `cr-report` reads it too, and a run that
was stopped goes on with what has no result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import MutationSpec, WorkItem

from tests.mutation.filters import Place, Position, places, rule_against
from tests.mutation.groups import Group
from tests.mutation.identity import Identity, changed_lines


@dataclass(frozen=True)
class Mutant:
    """One mutant of a session.

    Attributes:
        job: cosmic-ray's name of it.
        identity: Its name in words.
        line: Where it lies.
        source: Text of the mutated file.
        rule: Why it is not run, or None.
    """

    job: str
    identity: Identity
    line: int
    source: str
    rule: str | None


def open_session(path: Path, root: Path, group: Group) -> WorkDB:
    """Return the session of a group, listed anew where there is none.

    Args:
        path: The sqlite file.
        root: The tree.
        group: What is mutated.
    """
    is_new = not path.exists()
    session = WorkDB(path, WorkDB.Mode.create)
    if is_new:
        init([root / file for file in group.files(root)], session, {})
    return session


def listed(session: WorkDB) -> list[WorkItem]:
    """Return all mutants of a session, in an order that depends on the tree alone."""
    return sorted(session.work_items, key=_place)


def _place(item: WorkItem) -> tuple[str, Position, str, int]:
    (spec,) = item.mutations
    return str(spec.module_path), spec.start_pos, spec.operator_name, spec.occurrence


def shuffled(items: Sequence[WorkItem], seed: int) -> list[WorkItem]:
    """Return mutants in the order of a seeded sample.

    Args:
        items: What `listed` returned.
        seed: Everything random follows from it.
    """
    return Random(seed).sample(list(items), len(items))


def written(item: WorkItem, root: Path) -> Mutant:
    """Return a mutant with its text, its name in words, and the rule against it.

    Args:
        item: One of a session.
        root: The tree that the session was listed from.
    """
    (spec,) = item.mutations
    source, where = _read(spec.module_path)
    mutated = _mutated(spec, source)
    rule = rule_against(source, mutated, where, spec.start_pos, spec.end_pos)
    before, after = changed_lines(source, mutated)
    identity = Identity(
        str(spec.module_path.relative_to(root)),
        spec.definition_name or "",
        spec.operator_name.partition("/")[2],
        before,
        after,
    )
    return Mutant(item.job_id, identity, spec.start_pos[0], mutated, rule)


@lru_cache(maxsize=64)
def _read(path: Path) -> tuple[str, tuple[Place, ...]]:
    source = path.read_text(encoding="utf-8")
    return source, places(source)


def _mutated(spec: MutationSpec, source: str) -> str:
    operator: Any = get_operator(spec.operator_name)  # Any: cosmic-ray has no types
    mutated = mutate_code(source, operator(**spec.operator_args), spec.occurrence)
    return source if mutated is None else str(mutated)
