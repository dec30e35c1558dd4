"""The lifecycle machine: planted servers are caught, the correct one passes."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from kvzero.campaign.lifecycle import Life, Trial, live
from kvzero.memory import Pool
from kvzero.subjects.block_server import (
    ACCEPTED,
    CLEAN,
    KEPT,
    NOBODYS,
    OWNED_ONCE,
    RULES,
    BlockServer,
)
from kvzero.subjects.faults import fault_subjects
from kvzero.subjects.protocol import Contract, MadeSubject, Subject
from kvzero.subjects.registry import find_subject
from kvzero.subjects.server_faults import SERVER_FAULTS, ServerFault

HISTORIES = 300
EXECUTORS = {"host": "torch-loop", "footprint": "kvzero"}
ON_CPU = [fault for fault in SERVER_FAULTS if not fault.needs_gpu]
NEEDS_GPU = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device"
)
STEPS = {
    *("open", "allocate", "extend", "write", "release", "fork", "begin_load"),
    *("end_load", "dummy step", "sleep and wake", "move"),
}


def lived(
    subject: Subject | str = "torch-loop",
    executor: str = "host",
    server: type[BlockServer] = BlockServer,
    **options: Any,
) -> Life:
    found = find_subject(subject) if isinstance(subject, str) else subject
    seconds = options.pop("shrink_seconds", 0.0)
    trial = Trial(found, executor, server, shrink_seconds=seconds)
    return live(trial, **{"max_examples": HISTORIES, **options})


def broken(life: Life) -> str | None:
    return life.violation.property if life.violation else None


@pytest.mark.parametrize(("executor", "subject"), EXECUTORS.items())
def test_the_correct_server_and_zeroer_break_no_rule(
    executor: str, subject: str
) -> None:
    life = lived(subject, executor, max_examples=30)
    assert life.violation is None
    assert life.exit_code == 0
    assert set(life.trial.checks) == STEPS
    assert not life.trial.not_judged


@pytest.mark.parametrize("fault", ON_CPU, ids=lambda fault: fault.name)
def test_a_planted_server_is_caught_on_the_host(fault: ServerFault) -> None:
    assert broken(lived(server=fault.server)) == fault.breaks


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("fault", ON_CPU, ids=lambda fault: fault.name)
def test_a_planted_server_is_caught_by_the_footprint(
    fault: ServerFault, seed: int
) -> None:
    life = lived("kvzero", "footprint", fault.server, seed=seed)
    assert broken(life) == fault.breaks


@pytest.mark.gpu
@NEEDS_GPU
@pytest.mark.parametrize("fault", SERVER_FAULTS, ids=lambda fault: fault.name)
def test_a_planted_server_is_caught_on_the_device(fault: ServerFault) -> None:
    assert broken(lived("kvzero", "device", fault.server)) == fault.breaks


@pytest.mark.gpu
@NEEDS_GPU
def test_the_correct_server_captures_on_the_device() -> None:
    life = lived("kvzero", "device", max_examples=40)
    assert life.violation is None
    assert set(life.trial.checks) == {*STEPS, "capture"}


def test_planted_servers_name_rules_and_sources() -> None:
    assert len(ON_CPU) >= 4
    for fault in SERVER_FAULTS:
        assert fault.breaks in RULES
        assert "known-faults" in fault.source
        assert fault.server.__doc__


@pytest.mark.slow
def test_a_history_shrinks_to_few_steps_and_says_them() -> None:
    fault = next(f for f in ON_CPU if f.name == "forgets-failed-loads")
    # Without an end, so that the machine's speed does not say where shrinking ends. The
    # modules that are loaded still do a little: Hypothesis draws constants from them.
    life = lived(server=fault.server, shrink_seconds=math.inf)
    assert life.violation is not None
    text = "\n".join(life.violation.lines())
    assert re.search(r"pool +[23] blocks, [12] segments\n", text)
    assert "history  open; begin_load(1, 0 arrive); end_load([1], 0)\n" in text
    assert life.exit_code == 1


def test_the_same_seed_shows_the_same_history() -> None:
    server = next(f.server for f in ON_CPU if f.name == "copies-then-zeroes")
    told = [lived(server=server, seed=3).as_json()["text"] for _ in range(2)]
    assert told[0] == told[1]


REMEMBERING = ("ids-cached-by-count", "stale-tail-of-the-id-buffer")


@pytest.mark.slow
@pytest.mark.parametrize("name", REMEMBERING)
def test_a_zeroer_that_remembers_calls_is_caught(name: str) -> None:
    subject = next(fault for fault in fault_subjects() if fault.name == name)
    assert broken(lived(subject, "footprint")) in (CLEAN, KEPT)


class HandsOutTwice(BlockServer):
    """Keeps a block free that it hands out."""

    def take(self, count: int) -> list[int]:
        """Return free blocks, and keep them."""
        return self.free[:count]


def test_a_block_that_is_handed_out_twice_is_caught() -> None:
    assert broken(lived(server=HandsOutTwice)) == OWNED_ONCE


class LosesTheFront(BlockServer):
    """Forgets which blocks a request has."""

    def extended(self, blocks: list[int], count: int) -> list[int]:
        """Return the new blocks in front."""
        more = super().extended(blocks, count)
        return more[len(blocks) :] + more[: len(blocks)]


def test_a_table_that_loses_its_blocks_is_caught() -> None:
    assert broken(lived(server=LosesTheFront)) == OWNED_ONCE


class TorchZeroer:
    """Zeroes one page after the other; a fault is added by overriding `page`."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def zero(self, block_ids: Sequence[int]) -> None:
        for allocation, offset, stride, page in zip(*self.pool.layout.table):
            for block in block_ids:
                begin = offset + block * stride
                self.page(self.pool.tensors[allocation], begin, begin + page)

    def page(self, memory: torch.Tensor, begin: int, end: int) -> None:
        memory[begin:end] = 0


class ZeroesTheTail(TorchZeroer):
    def page(self, memory: torch.Tensor, begin: int, end: int) -> None:
        memory[begin:end] = 0
        memory[-1] = 0


class Refuses(TorchZeroer):
    def page(self, memory: torch.Tensor, begin: int, end: int) -> None:
        raise RuntimeError(f"no page from {begin} to {end} of {memory.numel()}")


def made(zeroer: type[TorchZeroer]) -> MadeSubject:
    return MadeSubject("made", Contract(uses_triton=False), zeroer)


def test_a_byte_of_nobody_that_is_zeroed_is_caught() -> None:
    assert lived(made(TorchZeroer), max_examples=20).violation is None
    assert broken(lived(made(ZeroesTheTail))) == NOBODYS


def test_a_call_that_raises_is_caught_with_its_message() -> None:
    life = lived(made(Refuses))
    assert broken(life) == ACCEPTED
    assert "raised RuntimeError: no page from" in life.as_json()["text"]


class Unknown(TorchZeroer):
    def page(self, memory: torch.Tensor, begin: int, end: int) -> None:
        memory[begin:end].cumsum_(0)


def test_what_cannot_be_told_is_never_green() -> None:
    life = lived(made(Unknown), "footprint", max_examples=5)
    assert life.violation is None
    assert life.exit_code == 5
    assert all("cumsum" in reason for reason in life.trial.not_judged)
    assert replace(life, seed=1).as_json()["not_judged"]
