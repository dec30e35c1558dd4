"""The protocol between the harness and an implementation under test.

A subject has a name, a contract and `build`. `build` gets the memory of one case, a
`Pool`, and returns an object with a method `zero(block_ids)`; that object may offer
`warmup()` and `extra_memory`. Nothing else is asked of it, so that a Triton kernel, a
CUDA op, a torch function or a class that makes its own table all fit.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from kvzero.case import ID_DTYPES, Arrival
from kvzero.memory import Pool


@dataclass(frozen=True, slots=True)
class Contract:
    """What a subject promises to handle; cases outside it are never held against it.

    Attributes:
        alignment_bytes: Every address, block stride and page size is a multiple of it.
        arrivals: How ids may reach it.
        id_dtypes: Element types of arrays and tensors of ids.
        checks_ids: It refuses ids outside the cache; else it trusts its caller.
        one_page_size: All segments must have one page size.
        writes_page_gaps: It zeroes from the first to the last byte of a page that has
            holes in it (a span), not only the bytes of the views.
        uses_triton: Its work is done by Triton kernels.
        holds_device_ids: Ids on the device may be made on another stream, which its
            caller has waited for, and freed as soon as the call returns. Else they
            belong to the stream of the call.
        allows_capture: A CUDA graph may capture a call with contiguous int64 ids on
            the device, and be replayed when other ids stand in that tensor.
        min_blocks: Fewest blocks of a cache that it can be built for.
        reserved_block: A block that the engine never hands to a request, or None: its
            warm-up may zero that block's pages.
    """

    alignment_bytes: int = 1
    arrivals: tuple[Arrival, ...] = ("list", "array", "tensor", "pinned", "device")
    id_dtypes: tuple[str, ...] = ID_DTYPES
    checks_ids: bool = True
    one_page_size: bool = False
    writes_page_gaps: bool = True
    uses_triton: bool = True
    holds_device_ids: bool = True
    allows_capture: bool = False
    min_blocks: int = 0
    reserved_block: int | None = None


class Zeroer(Protocol):
    """An implementation, built for one pool."""

    def zero(self, block_ids: Any, /) -> None:  # Any: whatever the call's ids are
        """Zero the pages of the given blocks."""


@runtime_checkable
class WarmsUp(Protocol):
    """A zeroer that can compile and load everything before the first request."""

    def warmup(self) -> None:
        """Compile, load and launch without writing a byte."""


@runtime_checkable
class HoldsMemory(Protocol):
    """A zeroer whose kernels read memory that no launch argument names."""

    @property
    def extra_memory(self) -> Iterable[Any]:  # Any: torch tensors
        """Return the tensors."""


class Subject(Protocol):
    """An implementation under test."""

    @property
    def name(self) -> str:
        """Return the name that ``--subject`` takes."""

    @property
    def contract(self) -> Contract:
        """Return what it promises to handle."""

    def build(self, pool: Pool) -> Zeroer:
        """Return the implementation for one pool."""


@runtime_checkable
class HasNotes(Protocol):
    """A subject of whose verdicts a reader must know something besides."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what, one sentence each: a difference from how it is used."""


@dataclass(frozen=True, slots=True)
class MadeSubject:
    """A subject made of a function or class that takes a pool.

    Attributes:
        name: The name that ``--subject`` takes.
        contract: What it promises to handle.
        make: Returns the implementation for one pool.
    """

    name: str
    contract: Contract
    make: Callable[[Pool], Zeroer]

    def build(self, pool: Pool) -> Zeroer:
        """Return the implementation for one pool."""
        return self.make(pool)
