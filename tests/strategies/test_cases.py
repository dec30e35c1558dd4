import pytest
from hypothesis import given

from kvzero.campaign.polish import polish
from kvzero.case import Call, Case, IdRun
from kvzero.casefile import decode_case, encode_case
from kvzero.layout import Allocation, Layout, Run
from kvzero.limits import CUDA_MAX_YZ, INT32_MAX
from kvzero.memory import place
from kvzero.strategies import cases
from kvzero.strategies.features import FEATURES, Facts, features
from kvzero.strategies.sampling import drawn, minimal
from kvzero.subjects.protocol import Contract

ONE_BYTE = Case(Layout(1, (Allocation(1),), (Run(1, 1),)), (Call((IdRun(0),)),))
NARROW = Contract(
    alignment_bytes=16,
    arrivals=("list", "tensor"),
    id_dtypes=("int64",),
    checks_ids=False,
    one_page_size=True,
)


def chunks_beyond(case: Case) -> bool:
    return product(case) > 0 and Facts(case).grid[2] > CUDA_MAX_YZ


def product(case: Case) -> int:
    return Facts(case).product


@given(cases())
def test_cases_survive_a_round_trip_through_their_file(case: Case) -> None:
    assert decode_case(encode_case(case)) == case


@given(cases())
def test_cases_lie_inside_the_address_space(case: Case) -> None:
    assert place(case).total_bytes < 2**46


@given(cases(contract=NARROW, platforms=("hip:gfx950",)))
def test_cases_keep_to_the_contract(case: Case) -> None:
    table = case.layout.table
    assert case.platform == "hip:gfx950"
    for column in (table.offset_bytes, table.stride_bytes, table.page_bytes):
        assert not (column % 16).any()
    assert len(set(table.page_bytes.tolist())) <= 1
    assert not any(shift % 16 for shift in case.placement.misalignments_bytes)
    for call in case.calls:
        assert call.arrival in NARROW.arrivals
        assert call.dtype == "int64"
        assert not call.must_be_refused(case.layout.num_blocks)


@pytest.mark.slow
def test_cases_for_real_memory_are_small() -> None:
    for case in drawn(cases(max_bytes=2**24, max_programs_hint=64), 300):
        guarded = place(case, most_gap_bytes=0).total_bytes
        least_guards = 2 * 4608 * case.layout.num_allocations
        assert guarded <= 2**24 + least_guards
        assert Facts(case).grid[1] <= 4096


def test_cases_shrink_to_one_byte() -> None:
    assert minimal(cases(), lambda _: True) == ONE_BYTE


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_many_segments_shrink_exactly_to_the_limit_as_one_run(seed: int) -> None:
    def beyond(case: Case) -> bool:
        ids, segments, _ = Facts(case).grid
        return ids > 0 and segments > CUDA_MAX_YZ

    case = minimal(cases(), beyond, seed=seed)
    (run,) = case.layout.runs
    assert run.segments == CUDA_MAX_YZ + 1
    assert run.page_bytes == 1
    assert case.layout.num_blocks == 1
    assert case.calls == ONE_BYTE.calls


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_many_chunks_shrink_exactly_to_the_limit(seed: int) -> None:
    case = minimal(cases(), chunks_beyond, seed=seed)
    assert Facts(case).grid == (1, 1, CUDA_MAX_YZ + 1)
    assert len(case.layout.runs) == 1
    assert case.layout.num_blocks == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_factor_of_a_shrunk_product_can_be_lowered(seed: int) -> None:
    def skipped(case: Case) -> bool:
        _, segments, chunks = Facts(case).grid
        return max(segments, chunks) <= CUDA_MAX_YZ and product(case) > INT32_MAX

    case = minimal(cases(), skipped, seed=seed)
    grid = Facts(case).grid
    for factor in grid:
        assert product(case) // factor * (factor - 1) <= INT32_MAX
    assert len(case.layout.runs) <= 3
    assert case.layout.num_blocks <= 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_far_block_shrinks_to_two_blocks_apart(seed: int) -> None:
    def is_far(case: Case) -> bool:
        return Facts(case).offset_bytes > INT32_MAX

    # Blocks against their stride: a trade that only the polishing of a case makes.
    case = polish(minimal(cases(), is_far, seed=seed), is_far, lambda: False)
    assert case.layout.num_blocks <= 4
    assert len(case.layout.runs) <= 3
    assert len(case.calls) == 1


@pytest.mark.slow
def test_cases_reach_every_feature_and_are_mostly_small() -> None:
    found = drawn(cases(), 3000)
    names = [features(case) for case in found]
    share = {name: sum(name in of_case for of_case in names) for name in FEATURES}
    assert {name: n for name, n in share.items() if n < len(found) // 100} == {}
    small = sum(
        sum(call.num_ids for call in case.calls)
        * int((-(-case.layout.table.page_bytes // 4096)).sum())
        < 2000
        for case in found
    )
    assert small > 0.7 * len(found)
