"""Block servers that are broken on purpose, each in one publicly reported way.

They differ from `BlockServer` in one decision: which blocks are zeroed, or when. Each
names the rule that its history breaks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvzero.subjects.block_server import CLEAN, KEPT, NULL, BlockServer, Hands


@dataclass(frozen=True, slots=True)
class ServerFault:
    """A deliberately broken server that the lifecycle machine must catch.

    Attributes:
        name: Its name.
        kind: The public fault kind.
        source: Where it is known from.
        breaks: The rule whose violation counts as its kill.
        server: The server.
        needs_gpu: Only the device executor can show it.
    """

    name: str
    kind: str
    source: str
    breaks: str
    server: type[BlockServer]
    needs_gpu: bool = False


class ZeroesOnRelease(BlockServer):
    """Zeroes what is given back instead of what is handed out, and forgets sleep."""

    def __init__(self, num_blocks: int, hands: Hands) -> None:
        """Zero the whole pool once."""
        super().__init__(num_blocks, hands)
        self.hands.zero(self.free)

    def extended(self, blocks: list[int], count: int) -> list[int]:
        """Return more blocks, which are taken to be clean."""
        return blocks + self.take(count)

    def release(self, blocks: Sequence[int]) -> None:
        """Zero the blocks and take them back."""
        self.hands.zero(blocks)
        super().release(blocks)

    def moved(self) -> None:
        """Zero the new memory: here it does not forget."""
        super().moved()
        self.hands.zero(self.free)


class ZeroesTheQueueLate(BlockServer):
    """Zeroes new blocks in the step after the one that hands them out, too."""

    def __init__(self, num_blocks: int, hands: Hands) -> None:
        """Begin with nothing queued."""
        super().__init__(num_blocks, hands)
        self.queued: list[int] = []

    def extended(self, blocks: list[int], count: int) -> list[int]:
        """Zero the queue, which still holds the blocks of the step before."""
        new = self.take(count)
        self.make_clean([*self.queued, *new])
        self.queued = new
        return blocks + new


class ForgetsFailedLoads(BlockServer):
    """Blocks that a load was to fill are never zeroed, whatever became of it."""

    def end_load(self, blocks: Sequence[int], loaded: int) -> None:
        """Take it for done."""


class WipesPartialLoads(BlockServer):
    """A load that failed half way has all of its blocks zeroed."""

    def end_load(self, blocks: Sequence[int], loaded: int) -> None:
        """Zero all, the blocks that were filled too."""
        if loaded < len(blocks):
            self.make_clean(blocks)


class CopiesThenZeroes(BlockServer):
    """The target of a copy is zeroed as all new blocks are, but after the copy."""

    def fork(self, block: int) -> int:
        """Copy, then zero."""
        (target,) = self.take(1)
        self.hands.copy(block, target)
        self.make_clean([target])
        return target


class LeavesTheNullBlockDirty(BlockServer):
    """What a dummy step wrote into block 0 stays there."""

    def dummy_step_is_over(self) -> None:
        """Leave block 0 as it is."""


class KeepsTheOldTable(BlockServer):
    """The zeroer is built once, and goes on to zero the memory that there was."""

    def moved(self) -> None:
        """Zero block 0 by the zeroer of the memory before."""
        self.captured = False
        self.make_clean([0])


class ZeroesTheWholeTable(BlockServer):
    """A request that grows has its table zeroed from the first block on."""

    def extended(self, blocks: list[int], count: int) -> list[int]:
        """Zero the blocks that the request has, with the new ones."""
        table = blocks + self.take(count)
        self.make_clean(table)
        return table


class ZeroesWhatWasReleased(BlockServer):
    """Released blocks are zeroed at the next step, when they may be another's."""

    def __init__(self, num_blocks: int, hands: Hands) -> None:
        """Begin with nothing released."""
        super().__init__(num_blocks, hands)
        self.released: list[int] = []

    def release(self, blocks: Sequence[int]) -> None:
        """Take the blocks back, first to be handed out, and remember to zero them."""
        self.make_clean(self.released)
        self.released = list(blocks)
        self.free[:0] = blocks


class CapturesAndForgets(BlockServer):
    """What capturing wrote into block 0 stays there."""

    def capture(self) -> None:
        """Capture, and leave block 0 as it is."""
        self.hands.capture()
        self.captured = True


SERVER_FAULTS = (
    ServerFault(
        "zeroes-on-release",
        "remapped-memory-not-zeroed",
        "known-faults C13: vLLM issues 45542 and 44972",
        CLEAN,
        ZeroesOnRelease,
    ),
    ServerFault(
        "zeroes-the-queue-late",
        "zeroing-lands-after-the-load",
        "known-faults A10: vLLM issues 45357 and 47373",
        KEPT,
        ZeroesTheQueueLate,
    ),
    ServerFault(
        "forgets-failed-loads",
        "skipped-then-never-zeroed",
        "known-faults A11: review of vLLM pull request 48481",
        CLEAN,
        ForgetsFailedLoads,
    ),
    ServerFault(
        "wipes-partial-loads",
        "partially-loaded-block-wiped",
        "known-faults A11: review of vLLM pull request 48481",
        KEPT,
        WipesPartialLoads,
    ),
    ServerFault(
        "copies-then-zeroes",
        "copy-then-zero",
        "known-faults C16: vLLM pull request 46384",
        KEPT,
        CopiesThenZeroes,
    ),
    ServerFault(
        "leaves-the-null-block-dirty",
        "null-block-left-dirty-by-dummy-step",
        "known-faults B2: vLLM issue 39810",
        NULL,
        LeavesTheNullBlockDirty,
    ),
    ServerFault(
        "keeps-the-old-table",
        "stale-raw-pointers",
        "known-faults C12: vLLM issues 53774 and 53508",
        NULL,
        KeepsTheOldTable,
    ),
    ServerFault(
        "zeroes-the-whole-table",
        "wrong-interval-after-prefix-hit",
        "known-faults C7: vLLM pull request 54878",
        KEPT,
        ZeroesTheWholeTable,
    ),
    ServerFault(
        "zeroes-what-was-released",
        "freed-while-still-read",
        "known-faults C14: vLLM issue 45357",
        KEPT,
        ZeroesWhatWasReleased,
    ),
    ServerFault(
        "captures-and-forgets",
        "null-block-left-dirty-by-capture",
        "known-faults B2: vLLM issues 57156 and 57158",
        NULL,
        CapturesAndForgets,
        needs_gpu=True,
    ),
)
"""Every planted fault, in the order of its kind's place in the catalogue."""
