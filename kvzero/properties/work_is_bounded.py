"""A call launches no more programs than a few for each 4 KiB of listed pages."""

from collections.abc import Iterator

import numpy as np

from kvzero.case import Case
from kvzero.observation import Observation
from kvzero.properties.verdict import Result, Violation, settle
from kvzero.properties.wording import call_text, counted

NAME = "work_is_bounded"
WHAT = "too-many-programs"

FREE_PROGRAMS = 4096
"""Programs that any call may launch: fewer than fill a large GPU twice."""
CHUNK_BYTES = 4096  # the chunk that did best on an H200
PROGRAMS_PER_CHUNK = 4


def work_is_bounded(case: Case, observation: Observation) -> Result:
    """Return whether no call launched far more programs than its bytes ask for.

    An id that is listed twice counts twice: a subject need not look for duplicates.
    """
    violations = [
        _violation(case, observation, index)
        for index, call in enumerate(observation.calls)
        if call.programs > FREE_PROGRAMS
        and call.programs > allowed_programs(case, index)
    ]
    launched = any(call.programs for call in observation.calls)
    return settle(NAME, violations, None if launched else "no call launched a program")


def allowed_programs(case: Case, index: int) -> int:
    """Return the most programs that a call may launch at no cost violation."""
    pages = case.layout.table.page_bytes
    chunks_per_block = int(np.sum(-(-pages // CHUNK_BYTES)))
    chunks = case.calls[index].num_ids * chunks_per_block
    return max(FREE_PROGRAMS, PROGRAMS_PER_CHUNK * chunks)


def _idle(observation: Observation, index: int) -> Iterator[tuple[str, str]]:
    """Yield how many programs did nothing, and the first, where that was seen."""
    call = observation.calls[index]
    if not call.idle_programs or call.idle_program is None:
        return
    places = {run.place: None for run in observation.launches if run.call == index}
    program = ", ".join(map(str, call.idle_program))
    yield (
        "idle",
        f"{counted(call.idle_programs, 'program')} stored nothing, the first "
        f"({program}), of {' and '.join(places)}",
    )


def _violation(case: Case, observation: Observation, index: int) -> Violation:
    programs, allowed = observation.calls[index].programs, allowed_programs(case, index)
    return Violation(
        NAME,
        "cost",
        WHAT,
        f"{programs:,} programs, but should be at most {allowed:,} for the listed "
        f"bytes {call_text(case, index)}",
        "",
        (
            *_idle(observation, index),
            ("rule", "more than both 4,096 and 4 for each 4 KiB of a listed page"),
        ),
        index,
    )
