"""The model beside a block pool: who owns each block, and what each byte should be.

The books are kept from what was asked for, never from what the server or the zeroer
did. Bytes of blocks that nobody owns may be anything; all others have one value.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kvzero.case import Call, Case, IdRun
from kvzero.executors.sessions import Bytes, Session
from kvzero.layout import Int64Array
from kvzero.oracle import must_be_zero
from kvzero.poison import poison_at
from kvzero.subjects.block_server import (
    CLEAN,
    KEPT,
    NOBODYS,
    NULL,
    NULL_BLOCK,
    RULES,
)

MARGIN_BYTES = 64
"""Bytes of the guards that are read on either side of an allocation."""

FRESH = 2**20
"""Allocation whose poison owners write: no pool has so many."""


class BlockBooks:
    """What every byte of a pool should be.

    Attributes:
        owned: Blocks of requests, loads in flight included.
        loading: Blocks that a load was to fill and has not filled yet.
        handed_out: Blocks that the last step handed out to be computed.
    """

    def __init__(self, session: Session) -> None:
        """Begin with memory that holds garbage, and no owner of anything."""
        self._session = session
        self._case: Case = session.case
        self._version = 0
        self.open_new_memory()

    @property
    def num_blocks(self) -> int:
        """Return the blocks of the pool."""
        return self._case.layout.num_blocks

    def open_new_memory(self) -> None:
        """Take the memory of the session as it lies and what it holds as garbage."""
        bases = self._session.base_addresses
        sizes = self._case.layout.allocation_sizes
        self._addresses = np.concatenate(
            [
                np.arange(base - MARGIN_BYTES, base + size + MARGIN_BYTES)
                for base, size in zip(bases.tolist(), sizes.tolist())
            ]
        )
        self._addresses.sort()
        self._pages = [self._page_indices(b, bases) for b in range(self.num_blocks)]
        self._block_of = np.full(len(self._addresses), -1)
        for block, page in enumerate(self._pages):
            self._block_of[page] = block
        self._expected = self._session.read(self._addresses)
        self.forget_owners()
        self._expected[self._pages[NULL_BLOCK]] = 0

    def forget_owners(self) -> None:
        """Let no block be owned: what blocks hold does not matter any more."""
        self.owned: set[int] = set()
        self.loading: set[int] = set()
        self.handed_out: set[int] = set()

    def hand_out(self, blocks: Iterable[int], *, to_load: bool = False) -> None:
        """Let blocks be owned; they must be zero, unless a load is to fill them."""
        new = set(blocks)
        self.owned |= new
        if to_load:
            self.loading |= new
        else:
            self.expect_zero(new)

    def expect_zero(self, blocks: Iterable[int]) -> None:
        """Expect zeros where a request is to compute."""
        for block in blocks:
            self._expected[self._pages[block]] = 0
            self.loading.discard(block)
            self.handed_out.add(block)

    def take_back(self, blocks: Iterable[int]) -> None:
        """Let blocks be of nobody."""
        self.owned.difference_update(blocks)
        self.loading.difference_update(blocks)

    def write(self, block: int) -> None:
        """Write new values over the pages of a block, as its owner."""
        page = self._pages[block]
        values = self._fresh(self._addresses[page])
        self._session.write(self._addresses[page], values)
        self._expected[page] = values
        self.loading.discard(block)

    def copy(self, source: int, target: int) -> None:
        """Copy the pages of a block over those of another."""
        at = [self._addresses[self._pages[block]] for block in (source, target)]
        self._session.write(at[1], self._session.read(at[0]))

    def expect_copy(self, source: int, target: int) -> None:
        """Expect in one block what another should hold."""
        self._expected[self._pages[target]] = self._expected[self._pages[source]]

    def spoil_null_block(self) -> None:
        """Write garbage into block 0, as dummy steps do."""
        at = self._addresses[self._pages[NULL_BLOCK]]
        self._session.write(at, self._fresh(at))

    def spoil_all(self) -> None:
        """Write garbage into all memory but the guards: it was given away."""
        bases = self._session.base_addresses
        for base, size in zip(bases, self._case.layout.allocation_sizes):
            inside = (self._addresses >= base) & (self._addresses < base + size)
            values = self._fresh(self._addresses[inside])
            self._session.write(self._addresses[inside], values)
            self._expected[inside] = values
        self._expected[self._pages[NULL_BLOCK]] = 0

    def wrong(self) -> tuple[str, str] | None:
        """Return the rule that the memory breaks, and where; None if none."""
        seen = self._session.read(self._addresses)
        wrong = np.nonzero((seen != self._expected) & self._matters())[0]
        if not len(wrong):
            return None
        # A block that was just handed out explains more than what lies around it.
        rules = np.array([self._rule_of(int(b)) for b in self._block_of[wrong]])
        rule = min(set(rules.tolist()), key=RULES.index)
        mine = wrong[rules == rule]
        return rule, self._told(int(mine[0]), len(mine), seen)

    def _matters(self) -> NDArray[np.bool_]:
        """Return which bytes have one value that they must hold."""
        free = set(range(self.num_blocks)) - self.owned - {NULL_BLOCK}
        return ~np.isin(self._block_of, [*free, *self.loading])

    def _rule_of(self, block: int) -> str:
        if block < 0:
            return NOBODYS
        if block == NULL_BLOCK:
            return NULL
        return CLEAN if block in self.handed_out else KEPT

    def _told(self, index: int, count: int, seen: Bytes) -> str:
        block, address = int(self._block_of[index]), int(self._addresses[index])
        distances = address - self._session.base_addresses
        allocation = int(
            np.argmin(np.where(distances >= -MARGIN_BYTES, distances, 2**62))
        )
        whose = f"block {block}" if block >= 0 else "outside all pages"
        return (
            f"{whose}, byte {int(distances[allocation])} of allocation {allocation} = "
            f"0x{int(seen[index]):02x}, but should be "
            f"0x{int(self._expected[index]):02x} (the first of {count} wrong bytes)"
        )

    def _page_indices(self, block: int, bases: Int64Array) -> NDArray[np.intp]:
        """Return where the bytes of a block's pages are among those that are read."""
        call = replace(self._case, calls=(Call((IdRun(block),)),))
        spans = must_be_zero(call, 0, bases)
        ends = zip(spans.starts.tolist(), spans.ends.tolist())
        parts = [np.arange(begin, end) for begin, end in ends]
        return np.searchsorted(self._addresses, np.concatenate(parts))

    def _fresh(self, addresses: Int64Array) -> Bytes:
        """Return values that were not written before."""
        self._version += 1
        first: np.int64 = self._session.base_addresses.min()
        values: Bytes = poison_at(self._version, FRESH, addresses - first)
        return values
