"""The host executor: CPU memory and Triton's interpreter, in its worker process."""

from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.case import Call, Case, IdRun, id_runs
from kvzero.executors.host import HostExecutor, _cap
from kvzero.executors.isolated import IsolatedExecutor
from kvzero.executors.real_memory import NotJudgedError
from kvzero.executors.transcript import from_json, to_json
from kvzero.layout import Allocation, Layout, Run
from kvzero.limits import LaunchShape
from kvzero.observation import (
    ByteSpan,
    CallObservation,
    Death,
    Launch,
    Misstep,
    Observation,
    Raised,
    Writer,
    WrongBytes,
)
from kvzero.subjects.registry import find_subject

LAYOUT = Layout(4, (Allocation(2048),), (Run(272, 512), Run(128, 512, 272)))
CASE = Case(LAYOUT, (Call(id_runs([1, 3])), Call(id_runs([4])), Call(())))


@pytest.fixture
def host(cpu_subjects: ModuleType) -> Iterator[IsolatedExecutor]:
    del cpu_subjects  # only makes the subjects importable, here and in the worker
    executor = IsolatedExecutor("host")
    yield executor
    executor.close()


@pytest.mark.slow
def test_a_torch_subject_is_observed_call_by_call(
    host: IsolatedExecutor, cpu_subjects: ModuleType
) -> None:
    seen = host.run(cpu_subjects.PLAIN, CASE)
    assert (seen.executor, seen.semantics) == ("host", "interpreter")
    assert [call.raised is None for call in seen.calls] == [True, False, True]
    assert [call.missed.count + call.touched.count for call in seen.calls] == [0] * 3
    assert [call.stored_bytes > 0 for call in seen.calls] == [True, False, False]
    wrong = host.run(cpu_subjects.LONG_PAGES, CASE).calls[0].touched
    assert [span.offset_bytes for span in wrong.spans] == [912, 1936]


@pytest.mark.slow
def test_a_triton_subject_runs_in_the_interpreter(host: IsolatedExecutor) -> None:
    seen = host.run(find_subject("kvzero"), CASE)
    assert [call.raised is None for call in seen.calls] == [True, False, True]
    assert [call.missed.count + call.touched.count for call in seen.calls] == [0] * 3
    assert not seen.launches
    blind = dict(seen.not_judged)
    assert "no launcher" in blind["launches_fit_the_platform"]


@pytest.mark.slow
def test_a_case_of_too_many_programs_is_not_judged(cpu_subjects: ModuleType) -> None:
    del cpu_subjects
    executor = IsolatedExecutor("host", max_programs=1)
    seen = executor.run(find_subject("masked-3d"), CASE)
    executor.close()
    assert "more than 1 programs" in dict(seen.not_judged)["*"]


@pytest.mark.parametrize(
    ("size", "memory_bytes"), [(2**40, None), (2**20, 2**20), (2**20, 0)]
)
def test_a_case_beyond_the_memory_is_not_judged(
    size: int, memory_bytes: int | None
) -> None:
    executor = HostExecutor(memory_bytes=memory_bytes)
    case = Case(Layout(1, (Allocation(size),), (Run(8, 8),)), (Call((IdRun(0),)),))
    assert not executor.fits(case)
    seen = executor.run(find_subject("masked-3d"), case)
    assert "B of memory, which is this executor's cap" in dict(seen.not_judged)["*"]
    assert not seen.calls


def test_a_limit_leaves_room_for_a_case() -> None:
    # sanity check of the test above
    assert HostExecutor(memory_bytes=2**33).fits(CASE)


PROGRAMS = st.tuples(*[st.integers(0, 9)] * 3)
WRITERS = st.none() | st.builds(Writer, PROGRAMS, st.text())
SPANS = st.builds(
    ByteSpan,
    st.none() | st.integers(0, 3),
    st.integers(-5, 5),
    st.integers(1, 9),
    st.binary(max_size=16),
    WRITERS,
)
WRONG = st.builds(WrongBytes, st.integers(0, 9), st.tuples(SPANS))
RAISED = st.none() | st.builds(Raised, st.text(), st.text(), st.booleans())
MISSTEPS = st.builds(
    Misstep, st.text(), st.text(), st.text(), st.tuples(*[st.integers(0, 9)] * 3)
)
CALLS = st.builds(
    CallObservation,
    RAISED,
    st.booleans(),
    WRONG,
    WRONG,
    st.integers(0, 9),
    st.tuples(MISSTEPS),
    st.integers(0, 9),
    again_by=WRITERS,
    idle_program=st.none() | PROGRAMS,
)
LAUNCHES = st.builds(
    Launch,
    st.integers(-1, 3),
    st.text(),
    st.text(),
    st.builds(LaunchShape, st.tuples(*[st.integers(0, 9)] * 3)),
    constants=st.just((("BLOCK_SIZE", 1024),)),
)


@given(
    st.builds(
        Observation,
        st.text(),
        st.just("host"),
        st.just("interpreter"),
        st.text(),
        st.tuples(CALLS, CALLS),
        st.tuples(LAUNCHES),
        st.booleans(),
        RAISED,
        st.none() | st.builds(Death, st.text(), st.text()),
        st.just((("*", "why"),)),
    )
)
def test_a_transcript_reads_back_as_it_was(observation: Observation) -> None:
    assert from_json(to_json(observation)) == observation


def test_the_cap_counts_all_programs_of_a_case() -> None:
    admit = _cap(20)
    admit((2, 3))
    admit((7, 1, 2))
    with pytest.raises(NotJudgedError, match=r"more than 20 programs, .* cap"):
        admit((1,))
