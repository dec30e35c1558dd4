"""Which calls are repeated on a device, and with what: rules that need no GPU."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from kvzero.case import ID_DTYPES, Arrival, Call, Case, IdRun, id_runs
from kvzero.executors.arena import Arena
from kvzero.executors.hold import spin
from kvzero.executors.real_memory import Alone
from kvzero.executors.repeats import MOST_IDS, _call_to_capture, _filler, _why_not
from kvzero.layout import Allocation, Layout, Run
from kvzero.observation import CallObservation, Raised, WrongBytes
from kvzero.subjects.protocol import Contract
from kvzero.triton_internals import LaunchEvent, dry_driver
from tests.executors.on_gpu import LAYOUT

CPU = torch.device("cpu")
FINE = CallObservation()
RAISED = CallObservation(raised=Raised("ValueError", "no"))
CAPTURES = Contract(allows_capture=True)
ON_DEVICE = Call(id_runs([3, 1]), "device")


class Idle:
    """A zeroer that is never called."""

    def zero(self, block_ids: object) -> None:
        raise NotImplementedError(block_ids)


def alone(
    *calls: Call,
    seen: tuple[CallObservation, ...] | None = None,
    contract: Contract = CAPTURES,
    piece_bytes: int = 2**26,
) -> Alone:
    case = Case(LAYOUT, calls)
    memory = Arena(CPU, most_gap_bytes=0, piece_bytes=piece_bytes).lay_out(case)
    return Alone(Idle(), contract, memory, seen or (FINE,) * len(calls), 0.0)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (alone(), "the case makes no call"),
        (
            alone(ON_DEVICE, seen=(CallObservation(missed=WrongBytes(1)),)),
            "already go wrong",
        ),
        (
            alone(ON_DEVICE, seen=(CallObservation(touched=WrongBytes(1)),)),
            "already go wrong",
        ),
        (alone(ON_DEVICE, seen=(CallObservation(bytes_judged=False),)), "not all byte"),
        (alone(ON_DEVICE, piece_bytes=2**12), "memory of one piece"),
        (alone(Call((IdRun(0, MOST_IDS + 1, 0),))), "at most 65,536 ids"),
    ],
)
def test_what_is_not_repeated_says_why(made: Alone, reason: str) -> None:
    assert reason in (_why_not(made) or "")


def test_calls_that_did_right_alone_are_repeated() -> None:
    assert _why_not(alone(ON_DEVICE, Call(id_runs([64])), seen=(FINE, RAISED))) is None


@pytest.mark.parametrize(
    ("call", "captured"),
    [
        (ON_DEVICE, True),
        (replace(ON_DEVICE, offset_el=1), True),
        (replace(ON_DEVICE, step_el=2), False),
        (replace(ON_DEVICE, dtype="int32"), False),
        (replace(ON_DEVICE, arrival="pinned"), False),
        (replace(ON_DEVICE, ids=()), False),
    ],
)
def test_a_graph_captures_a_call_with_plain_ids_on_the_device(
    call: Call, *, captured: bool
) -> None:
    made = alone(Call(id_runs([1])), call)
    assert _call_to_capture(made) == (1 if captured else None)
    assert _call_to_capture(replace(made, contract=Contract())) is None
    assert _call_to_capture(replace(made, calls=(FINE, RAISED))) is None


def test_a_cache_without_a_block_has_nothing_to_capture() -> None:
    layout = Layout(0, (Allocation(512),), (Run(8, 512),))
    case = Case(layout, (ON_DEVICE,))
    memory = Arena(CPU, most_gap_bytes=0, piece_bytes=2**26).lay_out(case)
    assert _call_to_capture(Alone(Idle(), CAPTURES, memory, (FINE,), 0.0)) is None


@pytest.mark.parametrize("dtype", ID_DTYPES)
@pytest.mark.parametrize(("offset", "step"), [(0, 1), (3, 1), (2, 3)])
def test_freed_ids_are_overwritten_as_a_whole_with_ids_that_were_not_listed(
    dtype: str, offset: int, step: int
) -> None:
    call = Call(id_runs([0, 2, 1]), "device", dtype, offset, step)
    filler = _filler(call, CPU, 64)
    assert filler is not None
    values = filler.numpy().view(np.dtype(dtype))
    assert len(values) == offset + 3 * step + 1
    assert set(values.tolist()) == {3}


@pytest.mark.parametrize("arrival", ["list", "array", "tensor", "pinned"])
def test_ids_of_the_host_need_no_such_buffer(arrival: Arrival) -> None:
    assert _filler(Call(id_runs([1]), arrival), CPU, 64) is None
    assert _filler(Call((), "device"), CPU, 64) is None


@pytest.mark.parametrize("target", ["cuda:80", "cuda:90", "cuda:100"])
def test_a_hold_is_one_program_of_one_warp_on_every_target(target: str) -> None:
    events: list[LaunchEvent] = []
    with dry_driver(target, events.append):
        spin[(1,)](2**40, 10**9, num_warps=1)
        spin[(1,)](16, 1, num_warps=1)
    assert [(e.shape.programs, e.shape.num_warps) for e in events] == [(1, 1)] * 2
    assert len({event.kernel.variant for event in events}) == 1
