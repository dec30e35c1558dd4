"""Ids that only the kernel sees: it passes over those that are outside the cache.

On a GPU the host does not look at ids on the device. Here they lie in host memory, so
they are sent down the device's path on purpose, and the footprint evaluates the kernel.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings

from kvzero.case import Call, Case, IdRun
from kvzero.executors import executor_named
from kvzero.memory import Pool
from kvzero.properties import BYTE_PROPERTIES, Holds, judge
from kvzero.strategies import cases
from kvzero.subjects.protocol import MadeSubject
from kvzero.subjects.registry import find_subject
from tests.executors.on_gpu import LAYOUT, NUM_BLOCKS

CONTRACT = replace(find_subject("kvzero").contract, arrivals=("device",))
FOOTPRINT = executor_named("footprint", max_programs=20_000)


class OnDevice:
    """Our zeroer, told that its ids lie on the device."""

    def __init__(self, pool: Pool) -> None:
        self.zeroer: Any = find_subject("kvzero").build(pool)

    @property
    def extra_memory(self) -> Iterable[torch.Tensor]:
        found: tuple[torch.Tensor, ...] = self.zeroer.extra_memory
        return found

    def zero(self, block_ids: torch.Tensor) -> None:
        self.zeroer._zero_device_ids(block_ids)


SUBJECT = MadeSubject("kvzero-on-device", CONTRACT, OnDevice)


def bytes_hold(case: Case) -> bool:
    """Return whether no byte is wrong and no call with integer ids was refused."""
    seen = FOOTPRINT.run(SUBJECT, case)
    assert [call.raised for call in seen.calls] == [None] * len(case.calls)
    results = judge(case, seen, CONTRACT)
    return all(
        isinstance(result, Holds)
        for result in results
        if result.property in BYTE_PROPERTIES
    )


def test_the_kernel_passes_over_each_kind_of_bad_id() -> None:
    bad = (-1, NUM_BLOCKS, NUM_BLOCKS + 1, 2**32, 2**32 + 1, -(2**63), 2**63 - 1)
    for block_id in bad:
        runs = (IdRun(3), IdRun(block_id), IdRun(1))
        assert bytes_hold(Case(LAYOUT, (Call(runs, "device"),)))


def test_a_uint64_beyond_int64_is_no_block() -> None:
    runs = (IdRun(3), IdRun(2**63 + 1), IdRun(2**64 - 1))
    assert bytes_hold(Case(LAYOUT, (Call(runs, "device", "uint64"),)))


@pytest.mark.slow
@settings(max_examples=60)
@given(case=cases(contract=CONTRACT, max_bytes=2**20, max_programs_hint=20_000))
def test_the_kernel_takes_any_ids_on_the_device(case: Case) -> None:
    integers = tuple(c for c in case.calls if c.dtype in CONTRACT.id_dtypes)
    seen = FOOTPRINT.run(SUBJECT, replace(case, calls=integers))
    assert not any(call.missed.count or call.touched.count for call in seen.calls)
    assert [call.raised for call in seen.calls] == [None] * len(integers)
