"""A subject on memory that stays open: between its calls others write and read there.

An executor runs a case from end to end; a history of a block pool is not known before
it is over, so here memory and zeroer are held between steps. `open_session` gives the
session of an executor: the steps are the same wherever the memory lies.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from kvzero.case import Case
from kvzero.errors import EnvironmentMissingError, SubjectError
from kvzero.executors.arena import Arena, Memory
from kvzero.layout import Int64Array
from kvzero.observation import Raised
from kvzero.subjects.block_server import NULL_BLOCK
from kvzero.subjects.protocol import Subject, WarmsUp

Bytes = NDArray[np.uint8]
MOST_GAP_BYTES = 2**20
PIECE_BYTES = 2**22


class Session(Protocol):
    """Memory of one case, and a zeroer on it, held between steps."""

    @property
    def case(self) -> Case:
        """Return the case whose memory it is; it has no calls."""

    @property
    def base_addresses(self) -> Int64Array:
        """Return the address of each allocation, shape [allocations]."""

    @property
    def can_capture(self) -> bool:
        """Return whether a graph of a call can be captured here."""

    @property
    def not_judged(self) -> str | None:
        """Return why the memory's bytes cannot be told any more, if so."""

    def build(self) -> Raised | None:
        """Build the zeroer for the memory as it lies; return what it raised."""

    def zero(self, blocks: Sequence[int]) -> Raised | None:
        """Zero blocks by the zeroer that was built last; return what it raised."""

    def capture(self) -> Raised | None:
        """Capture a graph that zeroes one block, whose id lies on the device."""

    def replay(self, block: int) -> None:
        """Replay the graph for a block."""

    def read(self, addresses: Int64Array) -> Bytes:
        """Return the bytes at some addresses, guards included."""

    def write(self, addresses: Int64Array, values: Bytes) -> None:
        """Write bytes, as whoever owns them would."""

    def move(self) -> None:
        """Lay the case's memory out elsewhere, poisoned; what was there is garbage."""


class RealSession:
    """A session on real memory, on the host or on a GPU."""

    def __init__(self, subject: Subject, case: Case, device: torch.device) -> None:
        """Lay the memory out.

        Args:
            subject: What zeroes it.
            case: Its layout and placement; without calls.
            device: Where it lies.
        """
        self.case = case
        self.not_judged: str | None = None
        self._subject = subject
        self._device = device
        self._zeroer: Any = None  # Any: a Zeroer, with or without its extras
        self._memories: list[Memory] = []
        self._graph: torch.cuda.CUDAGraph | None = None
        self._graph_ids = torch.zeros(1, dtype=torch.int64, device=device)
        self.move()

    @property
    def base_addresses(self) -> Int64Array:
        """Return the address of each allocation, shape [allocations]."""
        memory = self._memories[-1]
        return memory.addresses.base_bytes + memory.content.data_ptr()

    @property
    def can_capture(self) -> bool:
        """Return whether there are graphs, and the subject may be captured."""
        return self._device.type == "cuda" and self._subject.contract.allows_capture

    def build(self) -> Raised | None:
        """Build the zeroer for the memory as it lies; return what it raised."""
        return self._attempt(self._built)

    def zero(self, blocks: Sequence[int]) -> Raised | None:
        """Zero blocks by the zeroer that was built last; return what it raised."""
        return self._attempt(lambda: self._zeroer.zero(list(blocks)))

    def capture(self) -> Raised | None:
        """Capture a graph that zeroes one block, whose id lies on the device."""
        # Once without a graph: what a first call sets up must not be captured. Block 0
        # is nobody's, and the block of the last replay may be somebody's by now.
        self._graph_ids.fill_(NULL_BLOCK)
        raised = self._attempt(lambda: self._zeroer.zero(self._graph_ids))
        return raised or self._attempt(self._captured)

    def replay(self, block: int) -> None:
        """Replay the graph for a block.

        Raises:
            SubjectError: There is none.
        """
        if self._graph is None:
            raise SubjectError("replay: no graph has been captured for this memory")
        self._graph_ids.fill_(block)
        self._graph.replay()
        self._wait()

    def read(self, addresses: Int64Array) -> Bytes:
        """Return the bytes at some addresses, guards included."""
        found: Bytes = self._content[self._positions(addresses)].cpu().numpy()
        return found

    def write(self, addresses: Int64Array, values: Bytes) -> None:
        """Write bytes, as whoever owns them would."""
        written = torch.from_numpy(values).to(self._device)
        self._content[self._positions(addresses)] = written
        self._wait()

    def move(self) -> None:
        """Lay the case's memory out elsewhere, poisoned.

        The memory before is kept: a zeroer that still knows it must not be a danger to
        the process that judges it.
        """
        arena = Arena(
            self._device, most_gap_bytes=MOST_GAP_BYTES, piece_bytes=PIECE_BYTES
        )
        self._memories.append(arena.lay_out(self.case))
        self._graph = None
        self._wait()

    @property
    def _content(self) -> torch.Tensor:
        return self._memories[-1].content

    def _positions(self, addresses: Int64Array) -> torch.Tensor:
        return torch.from_numpy(addresses - self._content.data_ptr()).to(self._device)

    def _built(self) -> None:
        self._zeroer = self._subject.build(self._memories[-1].pool())
        if isinstance(self._zeroer, WarmsUp):
            self._zeroer.warmup()

    def _captured(self) -> None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._zeroer.zero(self._graph_ids)
        self._graph = graph

    def _attempt(self, action: Callable[[], object]) -> Raised | None:
        try:
            action()
        except (Exception, SystemExit) as error:  # what a subject raises is observed
            return Raised(
                type(error).__name__, str(error), isinstance(error, ValueError)
            )
        finally:
            self._wait()
        return None

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def open_session(executor: str, subject: Subject, case: Case) -> Session:
    """Return the session of an executor.

    Args:
        executor: One of `kvzero.executors.EXECUTOR_NAMES`.
        subject: What zeroes the memory.
        case: Layout and placement of the memory; without calls.

    Raises:
        EnvironmentMissingError: The executor cannot run the subject in this process.
    """
    if executor == "footprint":
        from kvzero.executors.footprint.session import FootprintSession

        return FootprintSession(subject, case)
    if executor == "host":
        _prepare_interpreter(subject)
        return RealSession(subject, case, torch.device("cpu"))
    if not torch.cuda.is_available():
        raise EnvironmentMissingError(
            "executor='device', but torch finds no GPU here: use --executor footprint"
        )
    return RealSession(subject, case, torch.device("cuda", torch.cuda.current_device()))


def _prepare_interpreter(subject: Subject) -> None:
    if not subject.contract.uses_triton:
        return
    import triton

    from kvzero.triton_internals.interpreter import mend_interpreter

    mend_interpreter()
    if not triton.knobs.runtime.interpret:
        raise EnvironmentMissingError(
            f"executor='host', but {subject.name} launches Triton kernels, which this "
            f"process does not interpret: start it with TRITON_INTERPRET=1"
        )
