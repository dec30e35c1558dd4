"""What programs may not do, and what they may: one kernel each."""

import numpy as np
import pytest
import torch

from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.observation import Misstep
from tests.executors.footprint import fault_kernels as kernels
from tests.executors.footprint.bench import Bench, ints, one_page_case


def only(missteps: tuple[Misstep, ...], kind: str) -> Misstep:
    assert [m.kind for m in missteps] == [kind]
    return missteps[0]


def test_masked_store_of_zero_is_one_stretch() -> None:
    bench = Bench()
    result = bench.launch(lambda: kernels.fill[(3,)](bench.memory, 300, 0, 128))
    assert result.missteps == ()
    assert bench.zeros() == [(0, 300)]


def test_store_of_another_value_is_kept_byte_by_byte() -> None:
    bench = Bench()
    bench.launch(lambda: kernels.fill[(1,)](bench.memory, 5, 7, 16))
    assert bench.zeros() == []
    assert bench.read(0, 5) == b"\x07" * 5
    assert 0 not in bench.read(5, 8)


def test_later_launch_overwrites_an_earlier_one() -> None:
    bench = Bench()
    bench.launch(lambda: kernels.fill[(1,)](bench.memory, 8, 7, 16))
    bench.launch(lambda: kernels.fill[(1,)](bench.memory, 4, 0, 16))
    assert bench.read(0, 8) == bytes(4) + b"\x07" * 4
    bench.launch(lambda: kernels.fill[(1,)](bench.memory, 2, 9, 16))
    assert bench.read(0, 4) == b"\x09\x09\x00\x00"
    assert bench.zeros() == [(2, 4)]


def test_false_multiple_is_reported_with_value_and_line() -> None:
    bench = Bench()
    sizes = ints(8, 6, 4)
    result = bench.launch(lambda: kernels.promised_multiple[(3,)](bench.memory, sizes))
    misstep = only(result.missteps, "false-promise")
    assert misstep.program == (1, 0, 0)
    assert misstep.count == 1
    assert "value=6, but must be a multiple of 4" in misstep.text
    assert misstep.place.startswith("fault_kernels.py:")


@pytest.mark.parametrize(("offset", "broken"), [(32, False), (8, True)])
def test_pointer_promise_counts_bytes(offset: int, broken: bool) -> None:
    bench = Bench()
    result = bench.launch(
        lambda: kernels.promised_pointer[(1,)](bench.memory, offset, 16)
    )
    assert [m.kind for m in result.missteps] == ["false-promise"] * broken
    assert bench.zeros() == [(offset, offset + 16)]


@pytest.mark.parametrize(
    ("lanes", "kept"),
    [
        ((4, 5, 6, 7, 16, 17, 18, 19), True),
        ((4, 5, 6, 7, 8, 9, 10, 11), True),
        ((4, 5, 7, 6, 16, 17, 18, 19), False),
        ((5, 6, 7, 8, 16, 17, 18, 19), False),
    ],
)
def test_lane_promises_speak_of_aligned_groups(
    lanes: tuple[int, ...], kept: bool
) -> None:
    bench = Bench()
    numbers = ints(*lanes)
    result = bench.launch(
        lambda: kernels.promised_lanes[(1,)](bench.memory, numbers, 8)
    )
    assert (result.missteps == ()) is kept


def test_false_assumption_is_reported_with_its_operands() -> None:
    bench = Bench()
    result = bench.launch(lambda: kernels.assumed[(1,)](bench.memory, 2))
    assert only(result.missteps, "false-promise").text == "tl.assume is false: 2 > 3"


def test_compiled_kernel_called_with_a_misaligned_argument_breaks_its_promise() -> None:
    bench = Bench()
    shifted = bench.memory[8:]

    def launch() -> None:
        kernel = kernels.fill.warmup(bench.memory, 5, 0, 16, grid=(1,))
        kernel[(1, 1, 1)](shifted, 5, 0, 16)

    misstep = only(bench.launch(launch).missteps, "false-promise")
    assert "multiple of 16" in misstep.text


def test_undefined_lane_that_is_stored_is_reported() -> None:
    bench = Bench()
    numbers = torch.ones(16, dtype=torch.int32)
    result = bench.launch(
        lambda: kernels.stores_undefined[(2,)](bench.memory, numbers, 8)
    )
    misstep = only(result.missteps, "undefined-value")
    assert misstep.text.startswith("a stored value")
    assert misstep.count == 2


def test_undefined_lane_that_nothing_depends_on_is_no_misstep() -> None:
    bench = Bench()
    numbers = torch.ones(16, dtype=torch.int32)
    result = bench.launch(
        lambda: kernels.hides_undefined[(1,)](bench.memory, numbers, 8)
    )
    assert result.missteps == ()
    assert bench.read(0, 8) == bytes(8)


def test_branch_on_an_undefined_value_is_reported() -> None:
    bench = Bench()
    numbers = ints(1)
    result = bench.launch(
        lambda: kernels.branches_on_undefined[(1,)](bench.memory, numbers, 1)
    )
    assert "a branch" in only(result.missteps, "undefined-value").text


def test_address_from_an_undefined_value_is_reported() -> None:
    bench = Bench()
    numbers = ints(1)
    result = bench.launch(
        lambda: kernels.addresses_undefined[(1,)](bench.memory, numbers, 1)
    )
    assert "the address of a store" in only(result.missteps, "undefined-value").text


def test_division_by_zero_is_reported() -> None:
    bench = Bench()
    result = bench.launch(lambda: kernels.divides_by[(3,)](bench.memory, ints(5, 0, 2)))
    misstep = only(result.missteps, "undefined-arithmetic")
    assert misstep.program == (1, 0, 0)
    assert "divsi by 0" in misstep.text


def test_over_wide_shift_is_reported() -> None:
    bench = Bench()
    result = bench.launch(
        lambda: kernels.shifts_by[(3,)](bench.memory, ints(5, 31, 32))
    )
    misstep = only(result.missteps, "undefined-arithmetic")
    assert misstep.program == (2, 0, 0)
    assert "32" in misstep.text


def test_two_values_on_one_byte_are_a_race() -> None:
    bench = Bench()
    result = bench.launch(lambda: kernels.same_byte[(2,)](bench.memory, 1))
    assert "byte 0 of allocation 0" in only(result.missteps, "race").text


def test_one_value_stored_twice_is_no_race() -> None:
    bench = Bench()
    result = bench.launch(lambda: kernels.same_byte[(2,)](bench.memory, 0))
    assert result.missteps == ()


@pytest.mark.parametrize(("distance", "races"), [(0, True), (1, False)])
def test_zero_and_another_value_on_one_byte_race(distance: int, races: bool) -> None:
    bench = Bench()
    result = bench.launch(lambda: kernels.zero_and_one[(2,)](bench.memory, distance))
    assert [m.kind for m in result.missteps] == ["race"] * races


@pytest.mark.parametrize(("distance", "races"), [(0, False), (1, True)])
def test_load_of_what_another_program_stores_is_a_race(
    distance: int, races: bool
) -> None:
    bench = Bench()
    result = bench.launch(
        lambda: kernels.reads_a_neighbour[(4,)](bench.memory, distance)
    )
    assert [m.kind for m in result.missteps] == ["race"] * races
    if races:
        assert result.missteps[0].count == 4


def test_own_old_value_stored_back_is_seen_as_a_store() -> None:
    bench = Bench()
    before = bench.read(0, 64)
    result = bench.launch(lambda: kernels.rewrites[(2,)](bench.memory, 32))
    assert result.missteps == ()
    stored = len(result.other) + result.zero.total_bytes
    assert stored == 64
    assert bench.read(0, 64) == before


def test_poison_is_copied_into_registered_memory_for_real() -> None:
    bench = Bench()
    target = torch.zeros(32, dtype=torch.uint8)
    bench.launch(lambda: kernels.copies[(1,)](bench.memory, target, 32))
    assert bytes(target.numpy()) == bench.read(0, 32)


def test_load_in_a_guard_is_a_bad_load() -> None:
    bench = Bench()
    table = ints(bench.memory.data_ptr() - 1, dtype=torch.int64)
    result = bench.launch(lambda: kernels.loads_from_table[(1,)](table, bench.memory))
    assert "byte -1 of allocation 0" in only(result.missteps, "bad-load").text


def test_load_past_an_argument_is_a_bad_load() -> None:
    bench = Bench()
    numbers = ints(1, 2, 3)
    result = bench.launch(lambda: kernels.loads_past[(1,)](numbers, bench.memory, 3))
    only(result.missteps, "bad-load")


def test_load_from_unregistered_memory_is_not_judged() -> None:
    bench = Bench()
    hidden = torch.zeros(8, dtype=torch.uint8)
    table = ints(hidden.data_ptr(), dtype=torch.int64)
    with pytest.raises(
        NotJudgedError, match=r"unregistered memory at fault_kernels.py:"
    ):
        bench.launch(lambda: kernels.loads_from_table[(1,)](table, bench.memory))


def test_load_from_registered_memory_is_served() -> None:
    bench = Bench()
    shown = torch.full((8,), 5, dtype=torch.uint8)
    bench.real.add(shown)
    table = ints(shown.data_ptr(), dtype=torch.int64)
    bench.launch(lambda: kernels.loads_from_table[(1,)](table, bench.memory))
    assert bench.read(0, 1) == b"\x05"


def test_store_at_a_misaligned_address_breaks_the_pointers_promise() -> None:
    bench = Bench()
    base = bench.memory.data_ptr()
    table = ints(base, base + 6, dtype=torch.int64)
    result = bench.launch(lambda: kernels.stores_at[(2,)](table))
    misstep = only(result.missteps, "false-promise")
    assert misstep.program == (1, 0, 0)
    assert bench.zeros() == [(0, 4), (6, 10)]


def test_unknown_operation_is_named_with_its_line() -> None:
    bench = Bench()
    with pytest.raises(
        NotJudgedError, match=r"^tt.histogram \(.*\) at fault_kernels.py:\d+$"
    ):
        bench.launch(lambda: kernels.uses_a_histogram[(1,)](bench.memory, 2))


def test_unknown_operation_that_no_program_runs_does_not_matter() -> None:
    bench = Bench()
    bench.launch(lambda: kernels.uses_a_histogram[(1,)](bench.memory, 0))
    assert bench.zeros() == [(8, 9)]


def test_endless_loop_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvzero.executors.footprint.frame.MAX_STEPS", 1000)
    bench = Bench()
    with pytest.raises(NotJudgedError, match="more than 1000 steps in a loop at"):
        bench.launch(lambda: kernels.never_ends[(1,)](bench.memory, 5))


def test_many_programs_are_joined_to_one_stretch() -> None:
    bench = Bench()
    result = bench.launch(lambda: kernels.zeroes_lanes[(64,)](bench.memory, 64))
    assert result.missteps == ()
    assert bench.zeros() == [(0, 4096)]


def test_offset_that_wraps_at_32_bits_goes_backwards() -> None:
    bench = Bench(one_page_case(2**33))
    middle = bench.memory[2**32 :]
    first = 2**31 - 8
    bench.launch(lambda: kernels.offset_wraps[(1,)](middle, first, 16))
    assert bench.zeros() == [
        (2**32 - 2**31, 2**32 - 2**31 + 8),
        (2**32 + 2**31 - 8, 2**32 + 2**31),
    ]


def test_wide_lanes_are_evaluated_in_smaller_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, whole = Bench(), Bench()
    whole.launch(lambda: kernels.wide_wrap[(37,)](whole.memory, 64))
    monkeypatch.setattr("kvzero.executors.footprint.values.MAX_DENSE_ELEMENTS", 200)
    bench.launch(lambda: kernels.wide_wrap[(37,)](bench.memory, 64))
    assert bench.zeros() == whole.zeros()
    program = np.arange(37, dtype=np.int32)[:, None] * np.int32(1431655765)
    lanes = program + np.arange(64, dtype=np.int32) * np.int32(65537)
    stored = np.zeros(4096, bool)
    stored[lanes & 4095] = True
    assert sum(end - begin for begin, end in bench.zeros()) == stored.sum()
