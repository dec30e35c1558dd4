"""vLLM's zeroer under the protocol of subjects.

Its contract is what its constructor asserts and its caller keeps to: addresses, strides
and pages in whole int32, ids as a Python list that the scheduler vouches for, and block
0 never handed to a request (the pool's null block), so its warm-up zeroes that one.

Source: vllm 0.33.0, ``vllm/v1/worker/utils.py``, ``vllm/v1/core/block_pool.py``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from kvzero.memory import Pool
from kvzero.subjects.protocol import Contract
from kvzero.subjects.vllm.engine import engine_of
from kvzero.subjects.vllm.release import Release, installed_release

NULL_BLOCK = 0

CONTRACT = Contract(
    alignment_bytes=4,
    arrivals=("list",),
    checks_ids=False,
    # It divides by the number of blocks.
    min_blocks=1,
    reserved_block=NULL_BLOCK,
)


class VllmZeroer:
    """vLLM's zeroer over the views of one pool."""

    def __init__(self, pool: Pool, release: Release) -> None:
        """Build it as a model runner does once its caches are bound."""
        groups, kernel_block_sizes, layers = engine_of(pool, release)
        self._num_blocks = pool.layout.num_blocks
        self._zeroer = release.zeroer(
            pool.device,
            attn_groups_iter=iter(groups),
            kernel_block_sizes=kernel_block_sizes,
            static_forward_context=layers,
            num_blocks=self._num_blocks,
        )

    def warmup(self) -> None:
        """Warm it up as both of vLLM's runners do."""
        self._zeroer.warmup(self._num_blocks)

    def zero(self, block_ids: list[int]) -> None:
        """Zero blocks."""
        self._zeroer.zero_block_ids(block_ids)

    @property
    def extra_memory(self) -> Iterable[torch.Tensor]:
        """Return the tables that its kernel reads: addresses, strides and pages."""
        parts = getattr(self._zeroer, "_meta", None) or ()
        return [part for part in parts if isinstance(part, torch.Tensor)]


@dataclass(frozen=True)
class VllmSubject:
    """The subject: the class of one release.

    Attributes:
        release: What the installed vLLM offers.
        name: The name that ``--subject`` takes.
        contract: What the class promises to handle.
    """

    release: Release
    name: str = "vllm"
    contract: Contract = CONTRACT

    @property
    def notes(self) -> tuple[str, ...]:
        """Return how a run differs from one inside an engine."""
        return self.release.notes

    def build(self, pool: Pool) -> VllmZeroer:
        """Return the zeroer for one pool."""
        return VllmZeroer(pool, self.release)


def vllm_subject() -> VllmSubject:
    """Return the subject of the installed vLLM.

    Raises:
        EnvironmentMissingError: There is none, or an unknown one.
    """
    return VllmSubject(installed_release())
