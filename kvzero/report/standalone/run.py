"""From the first call to the verdict of an exported script."""

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton

from kvzero.report.standalone.launches import (
    Launches,
    NotRun,
    launch_text,
    makers_refusing,
)
from kvzero.report.standalone.memory import PIECE_BYTES, Memory, free_bytes
from kvzero.report.standalone.plain_case import Call, NotOfferedError, PlainCase
from kvzero.triton_internals.interpreter import mend_interpreter

SHOWS_NOT, SHOWS, SCRIPT_FAILED, CANNOT_SHOW = range(4)
"""Exit codes; the last one: this machine cannot show the fault."""
MAX_INTERPRETED = 20_000
"""Programs that Triton's interpreter runs at most: about half a minute."""

SHOWN_LAUNCHES = 3

NEEDS_A_GPU = {
    "promises_hold": "Triton's interpreter ignores promises such as tl.multiple_of",
    "results_are_defined": "Triton's interpreter runs one program after the other",
}
NOT_LOOKED_AT = (
    "queued_calls_act_in_order",
    "graphs_replay_with_new_ids",
    "calls_keep_no_memory",
    "calls_do_not_wait",
    "warm_calls_compile_nothing",
    "work_is_bounded",
    "bytes_are_stored_once",
)


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(text + "\n")


def block_ids(call: Call, device: torch.device) -> Any:
    """Return the ids of a call in the form in which they arrive."""
    if call.arrival == "list":
        kind = {"bool": bool, "float16": float, "float32": float, "float64": float}
        return [kind.get(call.dtype, int)(i) for i in call.ids]
    size = call.offset_el + len(call.ids) * call.step_el + 1
    listed = slice(call.offset_el, size - 1, call.step_el)
    array = np.zeros(size, call.dtype)
    array[listed] = call.ids
    if call.arrival == "array":
        return array[listed]
    tensor = torch.from_numpy(array)
    if call.arrival == "pinned" and device.type == "cuda":
        tensor = tensor.pin_memory()
    return (tensor.to(device) if call.arrival == "device" else tensor)[listed]


def main(case: PlainCase, make: Callable[[Any], Any]) -> int:
    """Run the case, without a GPU in a child: a wild zeroer may kill its process.

    Args:
        case: The case.
        make: Returns the zeroer for a `Pool`.

    Returns:
        The exit code.
    """
    if torch.cuda.is_available():
        return _exit_code(case, make)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        mend_interpreter()
        code = _exit_code(case, make)
        sys.stdout.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        say(f"the process died of signal {os.WTERMSIG(status)}\nTHE FAULT SHOWS")
        return SHOWS
    return os.WEXITSTATUS(status)


def _exit_code(case: PlainCase, make: Callable[[Any], Any]) -> int:
    """Return the exit code of a run, an own one where this script itself fails."""
    try:
        return run(case, make)
    except Exception:  # as an exit code of 1 it would pass for the fault
        traceback.print_exc()
        return SCRIPT_FAILED


def run(case: PlainCase, make: Callable[[Any], Any]) -> int:
    """Run the case and say what shows.

    Args:
        case: The case.
        make: Returns the zeroer for a `Pool`.

    Returns:
        The exit code.
    """
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else "cpu"
    device = torch.device(device)
    name = torch.cuda.get_device_name() if on_gpu else "no GPU: Triton's interpreter"
    say(f"torch {torch.__version__}, triton {triton.__version__}, {name}")
    used = sum(case.allocation_bytes)
    used += 2 * case.guard_bytes * len(case.allocation_bytes)
    needed = case.arena_bytes if on_gpu else used
    fits = needed + 8 * PIECE_BYTES < free_bytes(device)
    if on_gpu and not fits:
        say(f"CANNOT SHOW IT HERE: {needed:,} B of GPU memory are needed and not free")
        return CANNOT_SHOW
    most = None if on_gpu else MAX_INTERPRETED if fits else 0
    launches = Launches(most)
    try:
        memory = Memory(case, device)
        if fits:
            memory.fill()
        with launches.watched():
            shown = _calls(memory, make, fits=fits)
    except NotOfferedError as error:
        say(f"CANNOT SHOW IT HERE: the zeroer reads {error}, which is not offered here")
        return CANNOT_SHOW
    except (OSError, MemoryError, torch.OutOfMemoryError) as error:
        say(f"CANNOT SHOW IT HERE: {case.arena_bytes:,} B cannot be had: {error}")
        return CANNOT_SHOW
    for kernel, shape in launches.beyond_limits()[:SHOWN_LAUNCHES]:
        say(launch_text(kernel, shape))
    if shown:
        say("THE FAULT SHOWS")
        return SHOWS
    all_made = shown is not None
    reason = _why_not_here(case, launches, all_made=all_made, on_gpu=on_gpu, fits=fits)
    if reason is not None:
        say(f"CANNOT SHOW IT HERE: {reason}")
        return CANNOT_SHOW
    say("the fault does not show: all bytes are right")
    return SHOWS_NOT


def _calls(memory: Memory, make: Callable[[Any], Any], *, fits: bool) -> bool | None:
    """Build the zeroer and make the calls.

    Returns:
        Whether a fault shows; None if some launch was not made, and nothing showed.
    """
    try:
        zeroer = make(memory.pool)
        if hasattr(zeroer, "warmup"):
            zeroer.warmup()
    except NotRun:
        return None
    except Exception as error:  # whatever it raises is what the script is to show
        say(f"the zeroer could not be built: {type(error).__name__}: {error}")
        return True
    all_made = fits
    for index, call in enumerate(memory.case.calls):
        told = f"call {index + 1} of {len(memory.case.calls)}"
        try:
            raised = _zero(zeroer, block_ids(call, memory.pool.device))
        except NotRun:
            all_made, raised = False, None
        if (raised is None) == call.must_be_refused:
            say(f"{told}: {raised or 'bad ids were accepted, but must be refused'}")
            return True
        count, texts = memory.wrong(call) if all_made else (0, [])
        if count:
            say(f"{told} left {count:,} wrong bytes; the first stretches begin with")
            say("\n".join(f"  {text}" for text in texts))
            return True
    return False if all_made else None


def _zero(zeroer: Any, ids: Any) -> str | None:
    """Make one call to its end, reuse its ids, and return what it raised."""
    try:
        zeroer.zero(ids)
        if len(ids) and not (isinstance(ids, torch.Tensor) and ids.is_cuda):
            # The caller owns the ids and may reuse their memory at once.
            ids[:] = [ids[0]] * len(ids) if isinstance(ids, list) else ids[0]
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    except Exception as error:  # whatever it raises is what the script is to show
        message = str(error).splitlines()
        return f"it raised {type(error).__name__}: {message[0] if message else ''}"
    return None


def _why_not_here(
    case: PlainCase, launches: Launches, *, all_made: bool, on_gpu: bool, fits: bool
) -> str | None:
    """Return why this machine cannot show the fault, if so."""
    beyond = launches.beyond_limits()
    if beyond and not on_gpu:
        makers = " or ".join(sorted({m for _, s in beyond for m in makers_refusing(s)}))
        return f"what becomes of these launches shows on a GPU of {makers}"
    if beyond:
        return (
            f"no launch is beyond {'AMD' if torch.version.hip else 'NVIDIA'}'s limits"
        )
    if not fits:
        return "the memory of the case is not free here: try a GPU"
    if not all_made:
        programs = f"{launches.programs:,} programs"
        return f"{programs} are too many for Triton's interpreter: it needs a GPU"
    if not on_gpu and case.broken in NEEDS_A_GPU:
        return f"{NEEDS_A_GPU[case.broken]}: it needs a GPU"
    if case.broken in NOT_LOOKED_AT:
        return f"the case breaks {case.broken}, which this script does not look at"
    return None
