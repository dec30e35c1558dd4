"""A server's block pool: who owns which block, and when which block is zeroed.

The part of a server that decides what its zeroer is called with, and in which order
among writes, copies, loads, sleep and capture. `BlockServer` is right and plain; what a
server can get wrong is a method, so that a faulty one differs in that alone. It knows
nothing of memory: `Hands` does what it asks for.

Block 0 is never handed out. Attention reads it for masked slots and dummy steps write
it, so it has to be zero whenever a request is served.
"""

from collections.abc import Sequence
from typing import Protocol

NULL_BLOCK = 0

CLEAN = "handed_out_blocks_are_zero"
KEPT = "owned_blocks_keep_their_bytes"
NULL = "the_null_block_is_zero"
NOBODYS = "memory_of_nobody_is_untouched"
OWNED_ONCE = "blocks_have_one_owner"
ACCEPTED = "legal_calls_are_accepted"
RULES = (CLEAN, KEPT, NULL, NOBODYS, OWNED_ONCE, ACCEPTED)
"""What must hold after every step, whichever server and whichever zeroer."""


class Hands(Protocol):
    """What a server does to memory, in the order in which it asks for it."""

    def zero(self, blocks: Sequence[int]) -> None:
        """Zero blocks, by the zeroer that was built last."""

    def copy(self, source: int, target: int) -> None:
        """Copy the pages of a block over those of another."""

    def build(self) -> None:
        """Build the zeroer anew, for the memory as it lies now."""

    def capture(self) -> None:
        """Capture a graph that zeroes one block, whose id it reads when replayed."""

    def replay(self, block: int) -> None:
        """Zero one block by the captured graph."""


class BlockServer:
    """Hands out zeroed blocks, and asks for nothing else to be zeroed.

    Attributes:
        hands: What it acts by.
        free: Blocks of nobody, the next one to be handed out first.
        captured: Whether there is a graph to replay.
    """

    def __init__(self, num_blocks: int, hands: Hands) -> None:
        """Take a pool whose memory holds garbage; all blocks but block 0 are free.

        Args:
            num_blocks: Blocks of the pool, at least 1.
            hands: What it acts by.
        """
        self.hands = hands
        self.free = list(range(NULL_BLOCK + 1, num_blocks))
        self.captured = False
        hands.build()
        self.hands.zero([NULL_BLOCK])

    def allocate(self, count: int) -> list[int]:
        """Return so many blocks for a new request, zeroed."""
        return self.extended([], count)

    def extended(self, blocks: list[int], count: int) -> list[int]:
        """Return a request's blocks with more of them behind, those zeroed."""
        new = self.take(count)
        self.make_clean(new)
        return blocks + new

    def release(self, blocks: Sequence[int]) -> None:
        """Take back the blocks of a request, which are handed out again last."""
        self.free.extend(blocks)

    def begin_load(self, count: int) -> list[int]:
        """Return blocks that a load from elsewhere is to fill: zeroing is in vain."""
        return self.take(count)

    def end_load(self, blocks: Sequence[int], loaded: int) -> None:
        """Take the end of a load; blocks beyond the first `loaded` were not filled.

        The request keeps all of them, and computes what is missing.
        """
        self.make_clean(blocks[loaded:])

    def fork(self, block: int) -> int:
        """Return a copy of a block, for a request that writes its own from now on."""
        (target,) = self.take(1)
        self.make_clean([target])
        self.hands.copy(block, target)
        return target

    def dummy_step_is_over(self) -> None:
        """Take the end of a step that wrote garbage into block 0: a warm-up did it."""
        self.make_clean([NULL_BLOCK])

    def woken(self) -> None:
        """Take memory back that holds garbage: its content was given away asleep."""
        self.make_clean([NULL_BLOCK])

    def moved(self) -> None:
        """Take new memory, somewhere else, that holds garbage; no block is owned."""
        self.captured = False
        self.hands.build()
        self.make_clean([NULL_BLOCK])

    def capture(self) -> None:
        """Capture what zeroes one block; capturing wrote garbage into block 0."""
        self.hands.capture()
        self.captured = True
        self.make_clean([NULL_BLOCK])

    def take(self, count: int) -> list[int]:
        """Return free blocks, as they are."""
        taken, self.free = self.free[:count], self.free[count:]
        return taken

    def make_clean(self, blocks: Sequence[int]) -> None:
        """Zero blocks, one alone by the graph if there is one."""
        if self.captured and len(blocks) == 1:
            self.hands.replay(blocks[0])
        elif blocks:
            self.hands.zero(blocks)
