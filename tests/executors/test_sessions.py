"""Sessions: the same steps do the same to memory, wherever it lies."""

from typing import Any

import numpy as np
import pytest
import torch

from kvzero.case import Call, Case, IdRun
from kvzero.errors import EnvironmentMissingError, InternalError, SubjectError
from kvzero.executors.sessions import Session, open_session
from kvzero.layout import Allocation, Layout, Run
from kvzero.memory import Pool
from kvzero.oracle import must_be_zero
from kvzero.poison import poison_at
from kvzero.subjects.protocol import Contract, MadeSubject
from kvzero.subjects.registry import find_subject

POOL = Case(Layout(3, (Allocation(48),), (Run(8, 16),)), (), seed=7)
TORCH_LOOP = find_subject("torch-loop")
SESSIONS = [
    ("host", "torch-loop"),
    ("footprint", "torch-loop"),
    ("footprint", "kvzero"),
]


def opened(executor: str, name: str) -> Session:
    session = open_session(executor, find_subject(name), POOL)
    assert session.build() is None
    return session


def everywhere(session: Session) -> np.ndarray[Any, np.dtype[np.int64]]:
    (base,) = session.base_addresses.tolist()
    return np.arange(base - 16, base + 64)


@pytest.fixture(params=SESSIONS, ids="-".join)
def session(request: pytest.FixtureRequest) -> Session:
    return opened(*request.param)


def test_a_session_begins_with_the_poison_of_its_case(session: Session) -> None:
    seen = session.read(everywhere(session))
    assert (seen == poison_at(7, 0, np.arange(-16, 64))).all()


def test_a_session_zeroes_the_pages_of_blocks_alone(session: Session) -> None:
    before = session.read(everywhere(session))
    assert session.zero([1, 2]) is None
    call = Case(POOL.layout, (Call((IdRun(1, 2),)),))
    must = must_be_zero(call, 0, session.base_addresses)
    for begin, end in zip(must.starts.tolist(), must.ends.tolist()):
        before[begin - everywhere(session)[0] : end - everywhere(session)[0]] = 0
    assert (session.read(everywhere(session)) == before).all()


def test_a_session_reads_what_was_written_and_zeroes_it_again(session: Session) -> None:
    page = session.base_addresses + 16 + np.arange(8)
    session.zero([1])
    session.write(page[::-1].copy(), np.arange(8, dtype=np.uint8))
    assert session.read(page).tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    session.zero([1])
    assert not session.read(page).any()


def test_a_moved_session_is_not_reached_by_the_zeroer_of_before(
    session: Session,
) -> None:
    before = session.base_addresses.copy()
    session.move()
    assert (session.base_addresses != before).all()
    fresh = session.read(everywhere(session))
    session.zero([0, 1, 2])
    assert (session.read(everywhere(session)) == fresh).all()
    assert session.build() is None
    session.zero([0])
    assert not session.read(session.base_addresses + np.arange(8)).any()


class Raises:
    """Raises on every call."""

    def __init__(self, pool: Pool) -> None:
        """Take any pool."""

    def zero(self, block_ids: Any) -> None:
        raise ValueError(f"no {block_ids}")


@pytest.mark.parametrize("executor", ["host", "footprint"])
def test_a_session_tells_what_a_subject_raised(executor: str) -> None:
    subject = MadeSubject("raises", Contract(uses_triton=False), Raises)
    session = open_session(executor, subject, POOL)
    session.build()
    raised = session.zero([1])
    assert raised is not None
    assert (raised.type_name, raised.message) == ("ValueError", "no [1]")


def test_a_footprint_session_says_why_bytes_cannot_be_told() -> None:
    class Unknown(Raises):
        def __init__(self, pool: Pool) -> None:
            self.memory = pool.tensors[0]

        def zero(self, block_ids: Any) -> None:
            self.memory[: len(block_ids)].cumsum_(0)

    subject = MadeSubject("unknown", Contract(uses_triton=False), Unknown)
    session = open_session("footprint", subject, POOL)
    session.build()
    session.zero([1])
    assert "cumsum" in (session.not_judged or "")


def test_graphs_are_refused_where_there_are_none() -> None:
    footprint, host = opened("footprint", "kvzero"), opened("host", "torch-loop")
    assert not footprint.can_capture
    assert not host.can_capture
    with pytest.raises(InternalError, match="ask `can_capture`"):
        footprint.capture()
    with pytest.raises(SubjectError, match="no graph has been captured"):
        host.replay(1)


def test_the_host_refuses_triton_kernels_that_nobody_interprets() -> None:
    with pytest.raises(EnvironmentMissingError, match="start it with TRITON_INTERPRET"):
        open_session("host", find_subject("kvzero"), POOL)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_device_refuses_where_there_is_none() -> None:
    with pytest.raises(EnvironmentMissingError, match="torch finds no GPU here"):
        open_session("device", TORCH_LOOP, POOL)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_captured_graph_zeroes_the_block_that_it_is_told() -> None:
    session = opened("device", "kvzero")
    assert session.can_capture
    assert session.capture() is None
    for block in (2, 1):
        session.replay(block)
        page = session.base_addresses + 16 * block + np.arange(8)
        assert not session.read(page).any()
