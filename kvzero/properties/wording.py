"""How failure texts name calls, cases and launches: one place for each phrase."""

from itertools import islice

from kvzero.case import Call, Case
from kvzero.observation import Launch, Writer

MOST_IDS = 8
"""Ids that a text spells out; a longer list is cut and counted."""


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: 1 block, 2 blocks."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def ids_text(call: Call) -> str:
    """Return the block list, cut where it is long: ``(1, 2)``."""
    values = (run.start + i * run.step for run in call.ids for i in range(run.count))
    shown = [str(value) for value in islice(values, MOST_IDS)]
    if call.num_ids > MOST_IDS:
        return f"({', '.join(shown)}, ... {call.num_ids:,} ids)"
    return f"({', '.join(shown)}{',' if len(shown) == 1 else ''})"


def call_text(case: Case, index: int) -> str:
    """Return which call it was: ``[call 1 of 2: zero((1, 2))]``."""
    call = case.calls[index]
    return f"[call {index + 1} of {len(case.calls)}: zero({ids_text(call)})]"


def arrival_text(call: Call) -> str:
    """Return how the ids reached the subject."""
    if call.arrival == "list":
        return "as a list"
    kind = {"array": "array", "tensor": "tensor"}.get(
        call.arrival, f"{call.arrival} tensor"
    )
    return f"as {call.dtype} {kind}, offset {call.offset_el}, step {call.step_el}"


def case_text(case: Case, index: int | None = None) -> str:
    """Return the case in a line: ``2 segments, 4 blocks, ids (1, 2)``."""
    layout = case.layout
    text = (
        f"{counted(len(layout.table), 'segment')}, "
        f"{counted(layout.num_blocks, 'block')}"
    )
    if index is None:
        return f"{text}, {counted(len(case.calls), 'call')}"
    return f"{text}, ids {ids_text(case.calls[index])}"


def written_by(writer: Writer) -> str:
    """Return who stored a byte: ``by program (1, 0, 0) at kernels.py:41``."""
    program = ", ".join(map(str, writer.program))
    return f"by program ({program}) at {writer.place}"


def launch_text(launch: Launch) -> str:
    """Return a launch: kernel, grid and constants."""
    grid = ", ".join(map(str, launch.shape.grid))
    constants = ", ".join(f"{name}={value}" for name, value in launch.constants)
    made = f"{launch.kernel}[{grid}]"
    return f"{made} with {constants}" if constants else made
